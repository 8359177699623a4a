"""The work that signals ask for: tasks on disk, each repeated until it has a result.

    install.updated                              config       fetch the install config, apply it
    cert.renewed, cert.wrap_ready, cert.updated  cert         stage the certificate; then cert-items
    cert.revoked, cert.unassigned                cert         remove the staged certificate
    ca.assigned                                  ca           stage the authority, trust it; then ca-items
    ca.unassigned                                ca           no longer trust it, remove the staged authority
                                                 *-items      apply the items that use the object, if it is new for them

A task that needs the server, or a key that is not wrapped yet, waits and is repeated; others go on meanwhile. Signals of
other types go to the owner's handlers, in their order.
"""

from __future__ import annotations

import datetime
import json
import random
import time
from pathlib import Path
from typing import Any, Optional

from restante_client import BlockingDeviceClient
from restante_client.agent.device import materials, plan, results
from restante_client.agent.device.applier import Applier, variables_of
from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.handlers import SignalHandlers
from restante_client.agent.device.results import Outcome, report, run_report
from restante_client.agent.device.staging import Staging
from restante_client.agent.device.store import AgentStore, OwnSignal, Task
from restante_client.agent.device.trust_stores import TrustStoreError
from restante_client.agent.device.windows import parse_window, seconds_until_open
from restante_client.agent.logs import Log
from restante_client.agent.stopping import Stopper
from restante_client.device.models import InstallConfig, Signal
from restante_client.errors import (
    BadRequest,
    Conflict,
    NotFound,
    Unavailable,
    Unreachable,
    VerificationFailed,
)

CONFIG, CERT, CA, CERT_ITEMS, CA_ITEMS = "config", "cert", "ca", "cert-items", "ca-items"
ITEMS_OF = {CERT: CERT_ITEMS, CA: CA_ITEMS}
RETRY_SECONDS_MAX = 600.0
# Nothing waits longer than this at a time. A later due time means that the clock was set back.
WAIT_SECONDS_MAX = 3600.0
REPORT_BATCH_BYTES = 12 * 1024


class Worker:
    def __init__(
        self,
        config: DeviceConfig,
        state: Path,
        device: BlockingDeviceClient,
        store: AgentStore,
        log: Log,
        stopper: Stopper,
    ) -> None:
        self._config = config
        self._device = device
        self._store = store
        self._log = log
        self._stopper = stopper
        self._staging = Staging(state)
        self._applier = Applier(config, state, store, self._staging, log)
        self._handlers = SignalHandlers(config.handlers, config.apply.search_path)
        self._reports_due_at = 0.0
        self._report_failures = 0
        self.failures = 0
        self._tasks = {
            CONFIG: self._work_config,
            CERT: self._work_certificate,
            CA: self._work_authority,
            CERT_ITEMS: self._work_items,
            CA_ITEMS: self._work_items,
        }

    # What there is to do

    def add(self, signal: Signal) -> None:
        """Put on disk what a signal asks for."""
        if signal.type == "install.updated":
            self._store.add_task(CONFIG)
        elif signal.type in ("cert.renewed", "cert.wrap_ready", "cert.updated"):
            self._add_object(CERT, signal, "cert_id")
        elif signal.type in ("cert.revoked", "cert.unassigned"):
            self._add_object(CERT, signal, "cert_id", is_removal=True)
        elif signal.type == "ca.assigned":
            self._add_object(CA, signal, "ca_id")
        elif signal.type == "ca.unassigned":
            self._add_object(CA, signal, "ca_id", is_removal=True)
        elif signal.type == "state.resync_required":
            self.add_everything()
        elif self._handlers.find(signal.type) is not None:
            self._store.add_own_signal(signal)
        else:
            self._log.debug("signal ignored", type=signal.type)

    def add_everything(self) -> None:
        """Compare the whole state with the server: signals may have been lost."""
        self._store.add_task(CONFIG)
        wanted = self._store.config("wanted")
        named = plan.objects_of(wanted.installs) if wanted else []
        for kind in (CERT, CA):
            ids = {id for found, id in named if found == kind} | set(self._staging.ids(kind))
            for id in sorted(ids):
                self._store.add_task(kind, id)
        for authority in self._store.authorities():
            self._store.add_task(CA, authority.ca_id)

    def start(self) -> None:
        """Continue after a stop or a crash."""
        self._applier.recover()
        self._store.make_tasks_due()
        self._store.add_task(CONFIG)

    def stop_polling(self) -> None:
        self._device.stop()

    def next_due_at(self) -> float:
        """When there is something to do next, as a time of the wall clock."""
        dues = [task.due_at for task in self._store.tasks()]
        own = self._store.next_own_signal()
        if own is not None:
            dues.append(own.due_at)
        if self._store.reports():
            dues.append(self._reports_due_at)
        return min(dues, default=time.time() + WAIT_SECONDS_MAX)

    def work(self) -> None:
        """Do all that is due, as far as the program need not stop."""
        while not self._stopper.is_stopped:
            now = time.time()
            task = next((each for each in self._store.tasks() if is_due(each.due_at, now)), None)
            if task is None:
                break
            self._work_task(task)
        while not self._stopper.is_stopped:
            own = self._store.next_own_signal()
            if own is None or not is_due(own.due_at, time.time()):
                break
            self._work_own_signal(own)
        self.send_reports()

    def _add_object(self, kind: str, signal: Signal, field: str, *, is_removal: bool = False) -> None:
        id = signal.ref.get(field)
        if isinstance(id, int) and id > 0:
            self._store.add_task(kind, id, is_removal=is_removal)
        else:
            self._log.error("signal without a usable id", type=signal.type, field=field)

    # Tasks

    def _work_task(self, task: Task) -> None:
        try:
            self._tasks[task.kind](task)
        except (Unreachable, Unavailable, Conflict, TrustStoreError, OSError) as error:
            self.failures += 1
            if isinstance(error, TrustStoreError) and task.attempts == 0:
                self._store.add_reports(report("ca.failed", ca_id=task.id, error=str(error)[: results.TEXT_MAX]))
            seconds = _wait_seconds(task.attempts, error)
            self._log.warning("task delayed", task=task.kind, id=task.id, seconds=round(seconds, 1), error=str(error))
            self._applier.recover()
            self._store.delay_task(task, seconds)

    def _work_config(self, task: Task) -> None:
        config = self._fetch_config()
        if config is None:
            self._store.end_task(task)
            return
        last = self._store.get("result") or {}
        is_approved = self._store.get("approved_version") == config.version
        if last.get("version") == config.version and last.get("result") in ("applied", "failed") and not is_approved:
            self._store.end_task(task)
            return
        if not is_approved and not self._may_apply(task, config, last):
            return
        try:
            items = plan.checked_items(config)
        except VerificationFailed as error:
            self._end_config(task, config, Outcome([], str(error)))
            return
        missing = self._stage_missing(items)
        self._log.info("config is applied now", version=config.version, items=len(items))
        outcome = self._applier.apply(
            f"config {config.version}", items, missing, variables=variables_of(config.version)
        )
        if outcome.is_ok and config.after_update_script:
            outcome = self._applier.run_script(
                config.after_update_script, outcome, variables=variables_of(config.version)
            )
        self._end_config(task, config, outcome)

    def _fetch_config(self) -> Optional[InstallConfig]:
        known = self._store.config("wanted")
        try:
            found = self._device.install_config(known.version if known else None)
        except NotFound:
            return None
        if found is None:
            return known
        self._store.save("wanted", found)
        return found

    def _may_apply(self, task: Task, config: InstallConfig, last: dict[str, Any]) -> bool:
        """Whether the owner's settings allow it now. Otherwise the result says that the config waits."""
        seconds = self._seconds_until_window()
        mode = self._config.apply.auto_apply
        if mode == "on" or (mode == "window" and seconds == 0.0):
            return True
        waiting = {"version": config.version, "result": "waiting", "at": time.time()}
        reports = []
        if (last.get("version"), last.get("result")) != (config.version, "waiting"):
            reports.append(report("install.waiting", **results.config_fields(config), auto_apply=mode))
            self._log.info("config waits", version=config.version, auto_apply=mode)
        if mode == "off":
            self._store.end_task(task, *reports, entries={"result": waiting})
            return False
        with self._store.state.transaction():
            self._store.put("result", waiting)
            self._store.put_reports(*reports)
        self._store.delay_task(task, min(seconds, WAIT_SECONDS_MAX))
        return False

    def _seconds_until_window(self) -> float:
        windows = [window for text in self._config.apply.windows if (window := parse_window(text))]
        return seconds_until_open(windows, datetime.datetime.now()) if windows else 0.0

    def _stage_missing(self, items: list[Any]) -> dict[str, str]:
        """Stage the objects that items need. Returns, for ids of items, why an object cannot be had."""
        missing: dict[str, str] = {}
        for kind, id in plan.objects_of(items):
            if kind not in plan.OB_TYPES or self._staging.is_staged(kind, id):
                continue
            problem = ""
            try:
                self._stage(kind, id)
            except NotFound:
                problem = f"{kind} {id} is not assigned to this device"
            except VerificationFailed as error:
                problem = f"{kind} {id}: {error}"
            if problem:
                missing.update({item.id: problem for item in items if plan.object_of(item) == (kind, id)})
        return missing

    def _end_config(self, task: Task, config: InstallConfig, outcome: Outcome) -> None:
        entries: dict[str, Any] = {
            "result": {
                "version": config.version,
                "result": "applied" if outcome.is_ok else "failed",
                "error": outcome.error,
                "at": time.time(),
            }
        }
        restored = []
        if outcome.is_ok:
            entries["applied"] = config
            entries["installed"] = self._installed_after(config)
            self._log.info("config applied", version=config.version)
        else:
            self.failures += 1
            self._log.error(
                "config failed",
                version=config.version,
                reason=outcome.error,
                rollback_errors=list(outcome.rollback_errors),
            )
            restored = self._restore_commands(outcome)
        kind = "install.applied" if outcome.is_ok else "install.failed"
        made = run_report(
            kind, results.config_fields(config), outcome, restored=restored, has_output=self._config.apply.report_output
        )
        self._store.end_task(task, made, entries={**entries, "approved_version": None})
        self._applier.remove_old_backups()

    def _restore_commands(self, outcome: Outcome) -> list[results.StepResult]:
        """After a rollback, run the commands of the config in force again: they load the restored files."""
        applied = self._store.config("applied")
        if applied is None or not outcome.has_executed:
            return []
        return self._applier.execute_again(plan.checked_items(applied), variables_of(applied.version))

    # Certificates and authorities

    def _work_certificate(self, task: Task) -> None:
        if not task.is_removal:
            try:
                self._stage(CERT, task.id)
                self._end_staged(task, "cert_id")
                return
            except VerificationFailed as error:
                self._end_failed(task, "cert.failed", "cert_id", error)
                return
            except NotFound:
                pass
        self._staging.remove(CERT, task.id)
        files = self._installed_files((CERT, task.id))
        self._log.warning("certificate removed from staging", cert_id=task.id, installed_files=files)
        self._store.end_task(task, report("cert.removed", cert_id=task.id, installed_files=files[:20]))

    def _work_authority(self, task: Task) -> None:
        if not task.is_removal:
            try:
                self._stage(CA, task.id)
                self._trust(task)
                return
            except VerificationFailed as error:
                self._end_failed(task, "ca.failed", "ca_id", error)
                return
            except NotFound:
                pass
        if self._store.authority(task.id) is not None or self._staging.is_staged(CA, task.id):
            self._applier.trust.remove(task.id)
            self._log.info("authority no longer trusted", ca_id=task.id)
        self._staging.remove(CA, task.id)
        self._store.remove_authority(task.id)
        self._store.end_task(task, report("ca.removed", ca_id=task.id))

    def _trust(self, task: Task) -> None:
        """Trust a staged authority, if the owner allows it or did before."""
        known = self._store.authority(task.id)
        new = self._applier.staged_authority(task.id)
        if self._config.trust.auto_import or known is not None:
            if known is None or known.pem != new.pem or not self._applier.trust.has(new.ca_id, new.pem):
                self._applier.trust.add(new.ca_id, new.pem)
                self._store.save_authority(new)
                self._log.info("authority trusted", ca_id=new.ca_id, fingerprint=new.fingerprint)
            self._end_staged(task, "ca_id", is_trusted=True)
        else:
            self._end_staged(task, "ca_id", is_trusted=False)

    def _stage(self, kind: str, id: int) -> None:
        """Fetch an object and make its files the current ones."""
        request: materials.CertificateRequest | materials.AuthorityRequest
        if kind == CERT:
            bundle = self._device.sealed_bundle(id)
            device_key = self._device.store.private_key_bytes
            request = materials.CertificateRequest(id, bundle, device_key, self._pfx_password())
        else:
            request = materials.AuthorityRequest(id, self._device.authority_bundle(id))
        made = materials.in_child(request)
        kept = self._config.certificates.releases_kept if kind == CERT else 1
        if self._staging.stage(kind, id, made, kept=kept):
            self._log.info("staged", kind=kind, id=id, serial=made.serial, fingerprint=made.fingerprint)

    def _pfx_password(self) -> Optional[bytes]:
        file = self._config.certificates.pfx_password_file
        return Path(file).read_bytes().strip() if file else None

    def _end_staged(self, task: Task, field: str, **fields: Any) -> None:
        """End the task of an object; tasks follow for items that do not have it yet."""
        meta = self._staging.meta(task.kind, task.id) or {}
        kind = "cert.staged" if task.kind == CERT else "ca.imported" if fields["is_trusted"] else "ca.staged"
        made = report(kind, **{field: task.id}, serial=meta.get("serial"), fingerprint=meta.get("fingerprint_sha256"))
        installed = (self._store.get("installed") or {}).get(f"{task.kind} {task.id}")
        following: list[tuple[str, int]] = []
        applied, wanted = self._store.config("applied"), self._store.config("wanted")
        key = (task.kind, task.id)
        if applied and key in plan.objects_of(applied.installs) and installed != meta.get("fingerprint_sha256"):
            following.append((ITEMS_OF[task.kind], task.id))
        entries = {}
        if wanted and key in plan.objects_of(wanted.installs) and (not applied or applied.version != wanted.version):
            # A config that failed, perhaps because this object was not here, is tried again.
            following = [(CONFIG, 0)]
            last = self._store.get("result") or {}
            if last.get("result") == "failed" and installed != meta.get("fingerprint_sha256"):
                entries["result"] = {**last, "result": "again"}
        self._store.end_task(task, made, entries=entries, next_tasks=following)

    def _end_failed(self, task: Task, type: str, field: str, error: Exception) -> None:
        self.failures += 1
        self._log.error("bundle refused", error=error, kind=task.kind, id=task.id)
        self._store.end_task(task, report(type, **{field: task.id}, error=str(error)[: results.TEXT_MAX]))

    def _work_items(self, task: Task) -> None:
        """Apply the items of the config in force that use a new certificate or authority."""
        kind = CERT if task.kind == CERT_ITEMS else CA
        config = self._store.config("applied")
        seconds = self._seconds_until_window() if self._config.apply.auto_apply == "window" else 0.0
        if config is None or not self._staging.is_staged(kind, task.id):
            self._store.end_task(task)
            return
        if seconds > 0:
            self._store.delay_task(task, min(seconds, WAIT_SECONDS_MAX))
            return
        items = plan.affected(plan.checked_items(config), (kind, task.id))
        missing = self._stage_missing(items)
        outcome = self._applier.apply(f"{task.kind} {task.id}", items, missing, variables=variables_of(config.version))
        meta = self._staging.meta(kind, task.id) or {}
        fields = {
            f"{kind}_id": task.id,
            "serial": meta.get("serial"),
            "fingerprint": meta.get("fingerprint_sha256"),
            "config_version": config.version,
        }
        entries = {}
        if outcome.is_ok:
            installed = self._store.get("installed") or {}
            entries["installed"] = {**installed, f"{kind} {task.id}": meta.get("fingerprint_sha256")}
            self._log.info("items applied again", kind=kind, id=task.id, items=len(items))
            restored = []
        else:
            self.failures += 1
            self._log.error("items failed", kind=kind, id=task.id, reason=outcome.error)
            restored = self._restore_commands(outcome)
        made = run_report(
            f"{kind}.installed" if outcome.is_ok else f"{kind}.failed",
            fields,
            outcome,
            restored=restored,
            has_output=self._config.apply.report_output,
        )
        self._store.end_task(task, made, entries=entries)
        self._applier.remove_old_backups()

    def _installed_after(self, config: InstallConfig) -> dict[str, Any]:
        """Which release of each object the config's items have."""
        found = {}
        for kind, id in plan.objects_of(config.installs):
            meta = self._staging.meta(kind, id) if kind in plan.OB_TYPES else None
            if meta is not None:
                found[f"{kind} {id}"] = meta["fingerprint_sha256"]
        return found

    def _installed_files(self, key: tuple[str, int]) -> list[str]:
        config = self._store.config("applied")
        items = config.installs if config else []
        return [path for item in items if item.enabled and plan.object_of(item) == key for path in item.targets]

    # Own signals and reports

    def _work_own_signal(self, own: OwnSignal) -> None:
        path = self._handlers.find(own.signal.type)
        if path is None:
            self._log.warning("handler is gone, signal dropped", type=own.signal.type, ts_ms=own.signal.ts_ms)
            self._store.end_own_signal(own)
            return
        done = self._handlers.run(path, own.signal)
        if done.is_ok:
            self._log.info("signal handled", type=own.signal.type, ts_ms=own.signal.ts_ms)
            self._store.end_own_signal(own)
            return
        self.failures += 1
        attempts = own.attempts + 1
        fields = {"signal": own.signal.type, "ts_ms": own.signal.ts_ms, "attempts": attempts, "error": done.error}
        if attempts >= self._handlers.attempts_max:
            self._log.error("signal given up", output=done.output, **_log_fields(fields))
            self._store.end_own_signal(own, report("signal.failed", **fields))
            return
        seconds = _retry_seconds(own.attempts)
        self._log.warning("handler failed", output=done.output, seconds=round(seconds, 1), **_log_fields(fields))
        self._store.delay_own_signal(own, seconds)

    def add_report(self, type: str, **fields: Any) -> None:
        self._store.add_reports(report(type, **fields))

    def send_reports(self) -> None:
        """Send what is in the outbox, oldest first; what cannot be sent now stays."""
        while not self._stopper.is_stopped and time.time() >= self._reports_due_at:
            batch = _batch(self._store.reports())
            if not batch:
                return
            try:
                self._device.report(*(event for _, event in batch))
            except BadRequest as error:
                self._log.error("reports refused and dropped", error=error, count=len(batch))
            except (Unreachable, Unavailable) as error:
                seconds = _wait_seconds(self._report_failures, error)
                self._report_failures += 1
                self._reports_due_at = time.time() + seconds
                self._log.warning("reports delayed", seconds=round(seconds, 1), error=str(error))
                return
            self._report_failures = 0
            self._store.remove_reports(batch[-1][0])


def is_due(due_at: float, now: float) -> bool:
    return due_at <= now or due_at > now + WAIT_SECONDS_MAX + RETRY_SECONDS_MAX


def _batch(reports: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    size = 0
    for count, (_, event) in enumerate(reports):
        size += len(json.dumps(event)) + 1
        if size > REPORT_BATCH_BYTES and count:
            return reports[:count]
    return reports


def _retry_seconds(attempts: int) -> float:
    bound = min(RETRY_SECONDS_MAX, 2.0 ** min(attempts, 16))
    return random.SystemRandom().uniform(bound / 2, bound)


def _wait_seconds(attempts: int, error: Exception) -> float:
    """The wait before the next attempt; the server's `Retry-After` is the least."""
    asked = getattr(error, "retry_after_seconds", None) or 0.0
    return min(WAIT_SECONDS_MAX, max(_retry_seconds(attempts), asked))


def _log_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {("reason" if name == "error" else name): value for name, value in fields.items()}
