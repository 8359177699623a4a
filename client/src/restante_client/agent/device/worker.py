"""The work that follows from signals: tasks on disk, each repeated until it has a result.

    install.updated                              config       fetch the install config, apply it
    cert.renewed, cert.wrap_ready, cert.updated  cert         stage the certificate; then cert-items
    cert.revoked, cert.unassigned                cert         remove the staged certificate
    ca.assigned                                  ca           stage the authority, trust it; then ca-items
    ca.unassigned                                ca           no longer trust it, remove the staged authority
                                                 *-items      apply the items that use the object, if it is new for them

A task that needs the server, or a key that is not wrapped yet, waits and is repeated; others go on meanwhile. Signals
of other types go to the owner's handlers, in their order.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from restante_client import BlockingDeviceClient
from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.config_work import ConfigWork
from restante_client.agent.device.handlers import SignalHandlers
from restante_client.agent.device.install import plan, results
from restante_client.agent.device.install.applier import Applier
from restante_client.agent.device.install.results import report
from restante_client.agent.device.install.trust_stores import TrustStoreError
from restante_client.agent.device.object_work import ObjectWork
from restante_client.agent.device.parts import CA, CA_ITEMS, CERT, CERT_ITEMS, CONFIG, WAIT_SECONDS_MAX, Parts
from restante_client.agent.device.staging import Staging
from restante_client.agent.device.store import AgentStore, OwnSignal, Task
from restante_client.agent.logs import Log
from restante_client.agent.stopping import Stopper
from restante_client.device.models import Signal
from restante_client.errors import BadRequest, Conflict, Unavailable, Unreachable

RETRY_SECONDS_MAX = 600.0
# The server lists short reports as a whole, so each request carries few.
REPORT_BATCH_BYTES = 2000


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
        self._device = device
        self._store = store
        self._log = log
        self._stopper = stopper
        self._staging = Staging(state)
        self._applier = Applier(config, state, store, self._staging, log)
        self._parts = Parts(config, device, store, self._staging, self._applier, log)
        self._handlers = SignalHandlers(config.handlers, config.apply.search_path)
        self._reports_due_at = 0.0
        self._report_failures = 0
        configs, objects = ConfigWork(self._parts), ObjectWork(self._parts)
        self._tasks = {
            CONFIG: configs.work,
            CERT: objects.work_certificate,
            CA: objects.work_authority,
            CERT_ITEMS: configs.work_items,
            CA_ITEMS: configs.work_items,
        }

    @property
    def failures(self) -> int:
        """The number of tasks and signals that did not go well since the start."""
        return self._parts.failures

    # What there is to do

    def add(self, signal: Signal) -> None:
        """Store the task that follows from a signal."""
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
            problem = self._handlers.problem(signal.type)
            (self._log.warning if problem else self._log.debug)("signal ignored", type=signal.type, reason=problem)

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
            self._parts.failures += 1
            if isinstance(error, TrustStoreError) and task.attempts == 0:
                self._store.add_reports(report("ca.failed", ca_id=task.id, error=str(error)[: results.TEXT_MAX]))
            seconds = _wait_seconds(task.attempts, error)
            self._log.warning("task delayed", task=task.kind, id=task.id, seconds=round(seconds, 1), error=str(error))
            self._applier.recover()
            self._store.delay_task(task, seconds)

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
        self._parts.failures += 1
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
