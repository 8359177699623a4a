"""The tasks that apply items: a new install config, or the items of the config in force for a new certificate.

Consent for a config covers its later certificates: with `auto_apply = "off"` the items of an applied config get a
renewed certificate at once. With `window` they wait for the window, like a config.
"""

from __future__ import annotations

import datetime
import hashlib
import time
from typing import Any, Optional

import msgspec

from restante_client.agent.device.install import plan, results
from restante_client.agent.device.install.applier import variables_of
from restante_client.agent.device.install.results import Outcome, report, run_report
from restante_client.agent.device.install.windows import parse_window, seconds_until_open
from restante_client.agent.device.parts import CA, CERT, CERT_ITEMS, WAIT_SECONDS_MAX, Parts
from restante_client.agent.device.store import Task
from restante_client.device.models import InstallConfig
from restante_client.errors import NotFound, VerificationFailed


def identity_of(config: InstallConfig) -> list[Any]:
    """What names a config. A server that was set up again may use a version a second time."""
    return [config.version, config.installs_hash]


class ConfigWork:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def work(self, task: Task) -> None:
        config = self._fetch_config()
        if config is None:
            self._parts.store.end_task(task)
            return
        last = self._parts.store.get("result") or {}
        is_approved = self._parts.store.get("approved") == identity_of(config)
        if self._is_tried(config, last) and not is_approved:
            self._parts.store.end_task(task)
            return
        if not is_approved and not self._may_apply(task, config, last):
            return
        try:
            items = plan.checked_items(config)
        except VerificationFailed as error:
            self._end_config(task, config, Outcome([], str(error)))
            return
        missing = self._parts.stage_missing(items)
        self._parts.log.info("config is applied now", version=config.version, items=len(items))
        outcome = self._parts.applier.apply(
            f"config {config.version}", items, missing, variables=variables_of(config.version)
        )
        if outcome.is_ok and config.after_update_script:
            outcome = self._parts.applier.run_script(
                config.after_update_script, outcome, variables=variables_of(config.version)
            )
        self._end_config(task, config, outcome)

    def _fetch_config(self) -> Optional[InstallConfig]:
        try:
            found = self._parts.device.install_config()
        except NotFound:
            return None
        if found is not None:
            self._parts.store.save("wanted", found)
        return found

    def _is_tried(self, config: InstallConfig, last: dict[str, Any]) -> bool:
        """Whether the config has a result. A failed one is tried again after the owner has changed the settings."""
        if last.get("config") != identity_of(config):
            return False
        is_same = last.get("settings") == self._settings()
        return last.get("result") == "applied" or (last.get("result") == "failed" and is_same)

    def _settings(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self._parts.config)).hexdigest()

    def _may_apply(self, task: Task, config: InstallConfig, last: dict[str, Any]) -> bool:
        """Whether the owner's settings allow it now. Otherwise the result says that the config waits."""
        seconds = self._seconds_until_window()
        mode = self._parts.config.apply.auto_apply
        if mode == "on" or (mode == "window" and seconds == 0.0):
            return True
        waiting = {"config": identity_of(config), "result": "waiting", "at": time.time()}
        reports = []
        if (last.get("config"), last.get("result")) != (identity_of(config), "waiting"):
            reports.append(report("install.waiting", **results.config_fields(config), auto_apply=mode))
            self._parts.log.info("config waits", version=config.version, auto_apply=mode)
        if mode == "off":
            self._parts.store.end_task(task, *reports, entries={"result": waiting})
            return False
        with self._parts.store.state.transaction():
            self._parts.store.put("result", waiting)
            self._parts.store.put_reports(*reports)
        self._parts.store.delay_task(task, min(seconds, WAIT_SECONDS_MAX))
        return False

    def _seconds_until_window(self) -> float:
        windows = [window for text in self._parts.config.apply.windows if (window := parse_window(text))]
        return seconds_until_open(windows, datetime.datetime.now()) if windows else 0.0

    def _end_config(self, task: Task, config: InstallConfig, outcome: Outcome) -> None:
        entries: dict[str, Any] = {
            "result": {
                "config": identity_of(config),
                "result": "applied" if outcome.is_ok else "failed",
                "error": outcome.error,
                "settings": self._settings(),
                "at": time.time(),
            }
        }
        restored = []
        if outcome.is_ok:
            entries["applied"] = config
            entries["installed"] = self._installed_after(config)
            self._parts.log.info("config applied", version=config.version)
        else:
            self._parts.failures += 1
            self._parts.log.error(
                "config failed",
                version=config.version,
                reason=outcome.error,
                rollback_errors=list(outcome.rollback_errors),
            )
            restored = self._restore_commands(outcome)
        kind = "install.applied" if outcome.is_ok else "install.failed"
        made = run_report(
            kind,
            results.config_fields(config),
            outcome,
            restored=restored,
            has_output=self._parts.config.apply.report_output,
        )
        self._parts.store.end_task(task, made, entries={**entries, "approved": None})
        self._parts.applier.remove_old_backups()

    def _restore_commands(self, outcome: Outcome) -> list[results.StepResult]:
        """After a rollback, run the commands of the config in force again: they load the restored files."""
        applied = self._parts.store.config("applied")
        if applied is None or not outcome.has_executed:
            return []
        return self._parts.applier.execute_again(plan.checked_items(applied), variables_of(applied.version))

    def work_items(self, task: Task) -> None:
        """Apply the items of the config in force that use a new certificate or authority."""
        kind = CERT if task.kind == CERT_ITEMS else CA
        config = self._parts.store.config("applied")
        seconds = self._seconds_until_window() if self._parts.config.apply.auto_apply == "window" else 0.0
        if config is None or not self._parts.staging.is_staged(kind, task.id):
            self._parts.store.end_task(task)
            return
        if seconds > 0:
            self._parts.store.delay_task(task, min(seconds, WAIT_SECONDS_MAX))
            return
        items = plan.affected(plan.checked_items(config), (kind, task.id))
        missing = self._parts.stage_missing(items)
        outcome = self._parts.applier.apply(
            f"{task.kind} {task.id}", items, missing, variables=variables_of(config.version)
        )
        meta = self._parts.staging.meta(kind, task.id) or {}
        fields = {
            f"{kind}_id": task.id,
            "serial": meta.get("serial"),
            "fingerprint": meta.get("fingerprint_sha256"),
            "items_version": config.version,
        }
        entries = {}
        if outcome.is_ok:
            installed = self._parts.store.get("installed") or {}
            entries["installed"] = {**installed, f"{kind} {task.id}": meta.get("fingerprint_sha256")}
            self._parts.log.info("items applied again", kind=kind, id=task.id, items=len(items))
            restored = []
        else:
            self._parts.failures += 1
            self._parts.log.error("items failed", kind=kind, id=task.id, reason=outcome.error)
            restored = self._restore_commands(outcome)
        made = run_report(
            f"{kind}.installed" if outcome.is_ok else f"{kind}.failed",
            fields,
            outcome,
            restored=restored,
            has_output=self._parts.config.apply.report_output,
        )
        self._parts.store.end_task(task, made, entries=entries)
        self._parts.applier.remove_old_backups()

    def _installed_after(self, config: InstallConfig) -> dict[str, Any]:
        """Which release of each object the config's items have."""
        found = {}
        for kind, id in plan.objects_of(config.installs):
            meta = self._parts.staging.meta(kind, id) if kind in plan.OB_TYPES else None
            if meta is not None:
                found[f"{kind} {id}"] = meta["fingerprint_sha256"]
        return found
