"""Applying items: each step is checked, journalled, made and verified; a failed run is rolled back.

    check all items ──▶ begin run ──▶ step: backup, journal, change, verify ──▶ … ──▶ outcome
                                       └─ failed, not continue_on_error ──▶ roll back, newest change first

The caller stores the outcome, which ends the run. After a crash the run is still there: `recover` rolls it back, and
the caller's task makes it again. Commands cannot be undone; they may run again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

import msgspec

from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.install import commands, files, plan, results
from restante_client.agent.device.install.consent import (
    AllowedPath,
    Command,
    Consent,
    Refused,
    command_of,
    verify_command,
)
from restante_client.agent.device.install.file_modes import wanted_state
from restante_client.agent.device.install.results import Outcome, StepResult
from restante_client.agent.device.install.trust_stores import TrustStoreError, TrustStores
from restante_client.agent.device.staging import Staging
from restante_client.agent.device.store import AgentStore, Authority, Change
from restante_client.agent.logs import Log
from restante_client.device.models import InstallItem

SCRIPT_STEP = "after_update_script"


class StepFailed(Exception):
    """A step did not do what it must."""

    def __init__(self, error: str, done: Optional[commands.CommandResult] = None) -> None:
        super().__init__(error)
        self.exit_code = done.exit_code if done else None
        self.output = done.output if done else ""


class Applier:
    def __init__(self, config: DeviceConfig, state: Path, store: AgentStore, staging: Staging, log: Log) -> None:
        self._config = config
        self._state = state
        self._store = store
        self._staging = staging
        self._log = log
        self._consent = Consent(config.allow)
        self.trust = TrustStores(config.trust, config.apply.search_path)

    # Runs

    def recover(self) -> None:
        """Roll back a run that a crash interrupted."""
        run = self._store.interrupted_run()
        if run is None:
            return
        errors = self._roll_back(run[0])
        self._log.warning("interrupted run rolled back", run=run[1], errors=errors)
        self._store.end_run()

    def apply(
        self, name: str, items: Sequence[InstallItem], missing: dict[str, str], *, variables: dict[str, str]
    ) -> Outcome:
        """Make all steps. `missing` says for ids of items why their object is not here."""
        refusals = {item.id: text for item in items if item.enabled and (text := self._refusal(item, missing))}
        for item in items:
            if item.id in refusals and not item.continue_on_error:
                steps = [
                    results.step(each, results.REFUSED, refusals[each.id]) for each in items if each.id in refusals
                ]
                return Outcome(steps, f"{item.id}: {refusals[item.id]}")
        run = self._store.begin_run(name)
        steps = []
        not_done: set[str] = set()
        for item in items:
            made = self._step(run, item, refusals, not_done, variables)
            steps.append(made)
            if made.result in results.WENT_WELL and not (made.result == results.SKIPPED and made.error):
                continue
            not_done.add(item.id)
            self._log.warning(
                "step not done", run=name, item=item.id, result=made.result, error=made.error, output=made.output
            )
            if made.result == results.FAILED and not item.continue_on_error:
                return Outcome(steps, f"{item.id}: {made.error}", self._roll_back(run))
        return Outcome(steps)

    def run_script(self, script: str, outcome: Outcome, *, variables: dict[str, str]) -> Outcome:
        """The config's script, if its hash is pinned; a script that fails makes the run fail."""
        if not self._consent.allows_script(script):
            error = "its SHA-256 is not in allow.after_update_scripts"
            self._log.warning("script refused", error=error)
            return Outcome([*outcome.steps, StepResult(SCRIPT_STEP, "script", results.REFUSED, error)])
        path = self._state / SCRIPT_STEP
        path.unlink(missing_ok=True)
        _write_private(path, script.encode(), 0o700)
        started = time.monotonic()
        command = [str(path)] if script.startswith("#!") else ["/bin/sh", str(path)]
        done = self._execute(command, None, None, {}, variables)
        path.unlink(missing_ok=True)
        made = StepResult(
            SCRIPT_STEP,
            "script",
            results.DONE if done.is_ok else results.FAILED,
            done.error,
            done.exit_code,
            done.output,
            _milliseconds_since(started),
        )
        if done.is_ok:
            return Outcome([*outcome.steps, made])
        run = self._store.interrupted_run()
        errors = self._roll_back(run[0]) if run else []
        return Outcome([*outcome.steps, made], f"{SCRIPT_STEP}: {done.error}", errors)

    def execute_again(self, items: Sequence[InstallItem], variables: dict[str, str]) -> list[StepResult]:
        """Run the commands of the config that is in force again, after files were rolled back to it."""
        made = []
        for item in items:
            if item.enabled and item.type == "exec" and not self._refusal(item, {}):
                made.append(self._attempt(0, item, variables))
        return made

    def remove_old_backups(self) -> None:
        folder = self._state / "backups"
        runs = (
            sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
            if folder.is_dir()
            else []
        )
        for path in runs[: -self._config.apply.backups_kept]:
            shutil.rmtree(path)

    # Steps

    def _refusal(self, item: InstallItem, missing: dict[str, str]) -> Optional[str]:
        """Why an item must not or cannot run, or None."""
        problem = plan.problem_of(item) or missing.get(item.id)
        if problem:
            return problem
        try:
            self._consent.check_item(item)
            for source in item.sources:
                self._source(item, source)
        except Refused as error:
            return str(error)
        return None

    def _step(
        self, run: int, item: InstallItem, refusals: dict[str, str], not_done: set[str], variables: dict[str, str]
    ) -> StepResult:
        if not item.enabled:
            return results.step(item, results.SKIPPED)
        if item.id in refusals:
            return results.step(item, results.REFUSED, refusals[item.id])
        needed = [need for need in item.depends_on if need in not_done]
        if needed:
            return results.step(item, results.SKIPPED, f"{needed[0]} was not done")
        return self._attempt(run, item, variables)

    def _attempt(self, run: int, item: InstallItem, variables: dict[str, str]) -> StepResult:
        started = time.monotonic()
        try:
            exit_code = None
            if item.type == "exec":
                has_changed, exit_code = True, self._exec(item, variables)
            else:
                has_changed = self._copy(run, item)
                if item.type == "import_ca":
                    has_changed = self._import(run, item) or has_changed
            self._verify(item, variables)
        except StepFailed as error:
            return results.step(
                item,
                results.FAILED,
                str(error),
                exit_code=error.exit_code,
                output=error.output,
                duration_ms=_milliseconds_since(started),
            )
        except (Refused, TrustStoreError, OSError, LookupError) as error:
            return results.step(item, results.FAILED, str(error), duration_ms=_milliseconds_since(started))
        result = results.DONE if has_changed else results.UNCHANGED
        return results.step(item, result, exit_code=exit_code, duration_ms=_milliseconds_since(started))

    def _copy(self, run: int, item: InstallItem) -> bool:
        has_changed = False
        for source, target in zip(item.sources, item.targets):
            content = files.read_source(self._source(item, source))
            path = self._consent.target(target)
            known = files.read_state(path)
            wanted = wanted_state(self._config.files, target, source, content, known)
            if known != wanted:
                self._journal(run, "file", path.path, known)
                files.write_state(path, wanted)
                has_changed = True
        return has_changed

    def _source(self, item: InstallItem, source: str) -> AllowedPath:
        found = plan.object_of(item)
        if found is not None:
            # `current` is the agent's own link.
            return AllowedPath(os.path.realpath(self._staging.current(*found)), (source,))
        if source.startswith("/"):
            return self._consent.source(source)
        parts = tuple(part for part in source.split("/") if part not in ("", "."))
        if ".." in parts or not parts:
            raise Refused(f"from: {source!r} is no path below files/ of the state folder")
        return AllowedPath(str(self._state / "files"), parts)

    def _exec(self, item: InstallItem, variables: dict[str, str]) -> Optional[int]:
        command = command_of(item)
        assert command is not None  # noqa: S101 — `problem_of` refused an item without one
        done = self._execute_for(item, command, variables)
        if not done.is_ok:
            raise StepFailed(done.error, done)
        return done.exit_code

    def _execute_for(self, item: InstallItem, command: Command, variables: dict[str, str]) -> commands.CommandResult:
        found = plan.object_of(item)
        own = {"RESTANTE_ITEM_ID": item.id}
        if found is not None:
            own["RESTANTE_RESOURCE"] = str(self._staging.current(*found))
        return self._execute(command, item.timeout_ms, item.run_as, {**own, **item.env}, variables)

    def _execute(
        self,
        command: Command,
        timeout_ms: Optional[int],
        run_as: Optional[str],
        environment: dict[str, str],
        variables: dict[str, str],
    ) -> commands.CommandResult:
        apply = self._config.apply
        return commands.run(
            command,
            timeout_seconds=timeout_ms / 1000 if timeout_ms else apply.timeout_seconds,
            search_path=apply.search_path,
            environment={**variables, **environment},
            run_as=run_as,
        )

    def _import(self, run: int, item: InstallItem) -> bool:
        assert item.ob_id is not None  # noqa: S101 — `problem_of` refused an item without one
        known = self._store.authority(item.ob_id)
        new = self.staged_authority(item.ob_id)
        if known is not None and known.pem == new.pem and self.trust.has(new.ca_id, new.pem):
            return False
        saved = None if known is None else files.FileState(msgspec.json.encode(known), 0o600, 0, 0)
        self._journal(run, "ca", str(item.ob_id), saved)
        self.trust.add(new.ca_id, new.pem)
        self._store.save_authority(new)
        return True

    def staged_authority(self, ca_id: int) -> Authority:
        meta = self._staging.meta("ca", ca_id)
        if meta is None:
            raise LookupError(f"authority {ca_id} is not staged")
        pem = (self._staging.current("ca", ca_id) / "ca.pem").read_bytes()
        return Authority(ca_id, meta["name"], meta["serial"], meta["fingerprint_sha256"], pem)

    # Verification

    def _verify(self, item: InstallItem, variables: dict[str, str]) -> None:
        kind = item.verify.get("type", "command") if item.verify else None
        if kind == "command":
            command = verify_command(item)
            assert command is not None  # noqa: S101 — `problem_of` refused an item without one
            done = self._execute_for(item, command, variables)
            if not done.is_ok:
                raise StepFailed(f"verify: {done.error}", done)
        elif kind == "file_hash":
            self._verify_hash(item)
        elif kind == "cert_fingerprint":
            self._verify_fingerprint(item)

    def _verify_hash(self, item: InstallItem) -> None:
        path = self._verified_path(item)
        found = hashlib.sha256(files.read_source(path)).hexdigest()
        if found != item.verify["sha256"].lower():
            raise StepFailed(f"verify: {path.path} has the SHA-256 {found}")

    def _verify_fingerprint(self, item: InstallItem) -> None:
        path = self._verified_path(item)
        content = files.read_source(path)
        if b"-----BEGIN CERTIFICATE-----" in content:
            end = b"-----END CERTIFICATE-----"
            first = content[content.index(b"-----BEGIN CERTIFICATE-----") : content.index(end) + len(end)]
            content = ssl.PEM_cert_to_DER_cert(first.decode())
        found = hashlib.sha256(content).hexdigest()
        known = plan.object_of(item)
        meta = (self._staging.meta(*known) if known else None) or {}
        wanted = str(item.verify.get("sha256") or meta.get("fingerprint_sha256", "")).replace(":", "").lower()
        if found != wanted:
            raise StepFailed(f"verify: the certificate in {path.path} has the fingerprint {found}")

    def _verified_path(self, item: InstallItem) -> AllowedPath:
        path = item.verify.get("path") or (item.targets[0] if item.targets else "")
        return self._consent.target(str(path))

    # The journal

    def _journal(self, run: int, kind: str, name: str, known: Optional[files.FileState]) -> None:
        """Store what is there now, before it is changed."""
        backup = None
        if known is not None:
            folder = self._state / "backups" / str(run)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = len(list(folder.iterdir()))
            backup = f"{number:03d}-{quote(name, safe='')[-200:]}"
            _write_private(folder / backup, known.content, 0o600)
        state = known or files.FileState(b"", 0, 0, 0)
        self._store.add_change(
            Change(0, kind, name, known is not None, state.mode, state.uid, state.gid, state.is_link, backup)
        )

    def _roll_back(self, run: int) -> list[str]:
        """Undo all changes of a run, newest first, and return what could not be undone. May be repeated."""
        errors = []
        for change in reversed(self._store.changes()):
            content = (
                b"" if change.backup is None else (self._state / "backups" / str(run) / change.backup).read_bytes()
            )
            try:
                if change.kind == "ca":
                    self._restore_authority(int(change.name), content if change.existed else None)
                else:
                    self._restore_file(change, content)
            except (Refused, TrustStoreError, OSError) as error:
                errors.append(f"{change.name}: {error}")
        return errors

    def _restore_file(self, change: Change, content: bytes) -> None:
        path = self._consent.target(change.name)
        if not change.existed:
            files.remove(path)
            return
        files.write_state(path, files.FileState(content, change.mode, change.uid, change.gid, change.is_link))

    def _restore_authority(self, ca_id: int, saved: Optional[bytes]) -> None:
        if saved is None:
            self.trust.remove(ca_id)
            self._store.remove_authority(ca_id)
        else:
            known = msgspec.json.decode(saved, type=Authority)
            self.trust.add(ca_id, known.pem)
            self._store.save_authority(known)


def _write_private(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(content)
        writing.flush()
        os.fsync(writing.fileno())


def _milliseconds_since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def variables_of(version: Any) -> dict[str, str]:
    """What every command of a config finds in its environment."""
    return {"RESTANTE_CONFIG_VERSION": str(version)}
