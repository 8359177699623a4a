"""The tasks of certificates and authorities: stage them, trust authorities, remove both."""

from __future__ import annotations

from restante_client.agent.device.install import plan, results
from restante_client.agent.device.install.results import report
from restante_client.agent.device.parts import CA, CA_ITEMS, CERT, CERT_ITEMS, CONFIG, Parts
from restante_client.agent.device.store import Task
from restante_client.errors import NotFound, VerificationFailed

ITEMS_OF = {CERT: CERT_ITEMS, CA: CA_ITEMS}


class ObjectWork:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def work_certificate(self, task: Task) -> None:
        if not task.is_removal:
            try:
                is_new = self._parts.stage(CERT, task.id)
                self._end_staged(task, "cert_id", "cert.staged" if is_new else "")
                return
            except VerificationFailed as error:
                self._end_failed(task, "cert.failed", "cert_id", error)
                return
            except NotFound:
                pass
        self._parts.staging.remove(CERT, task.id)
        files = self._installed_files((CERT, task.id))
        self._parts.log.warning("certificate removed from staging", cert_id=task.id, installed_files=files)
        self._parts.store.end_task(task, report("cert.removed", cert_id=task.id, installed_files=files[:20]))

    def work_authority(self, task: Task) -> None:
        if not task.is_removal:
            try:
                is_new = self._parts.stage(CA, task.id)
                self._end_staged(task, "ca_id", self._trust(task) or ("ca.staged" if is_new else ""))
                return
            except VerificationFailed as error:
                self._end_failed(task, "ca.failed", "ca_id", error)
                return
            except NotFound:
                pass
        if self._parts.store.authority(task.id) is not None or self._parts.staging.is_staged(CA, task.id):
            self._parts.applier.trust.remove(task.id)
            self._parts.log.info("authority no longer trusted", ca_id=task.id)
        self._parts.staging.remove(CA, task.id)
        self._parts.store.remove_authority(task.id)
        self._parts.store.end_task(task, report("ca.removed", ca_id=task.id))

    def _trust(self, task: Task) -> str:
        """Trust a staged authority, if the owner allows it or did before. Returns the type of the report, if any."""
        known = self._parts.store.authority(task.id)
        new = self._parts.applier.staged_authority(task.id)
        trust = self._parts.applier.trust
        if known is None and not self._parts.config.trust.auto_import:
            return ""
        if known is not None and known.pem == new.pem and trust.has(new.ca_id, new.pem):
            return ""
        trust.add(new.ca_id, new.pem)
        self._parts.store.save_authority(new)
        self._parts.log.info("authority trusted", ca_id=new.ca_id, fingerprint=new.fingerprint)
        return "ca.imported"

    def _end_staged(self, task: Task, field: str, type: str) -> None:
        """End the task of an object; tasks follow for items that do not have it yet. `type`: of the report, if any."""
        meta = self._parts.staging.meta(task.kind, task.id) or {}
        fields = {field: task.id, "serial": meta.get("serial"), "fingerprint": meta.get("fingerprint_sha256")}
        reports = [report(type, **fields)] if type else []
        installed = (self._parts.store.get("installed") or {}).get(f"{task.kind} {task.id}")
        following: list[tuple[str, int]] = []
        applied, wanted = self._parts.store.config("applied"), self._parts.store.config("wanted")
        key = (task.kind, task.id)
        if applied and key in plan.objects_of(applied.installs) and installed != meta.get("fingerprint_sha256"):
            following.append((ITEMS_OF[task.kind], task.id))
        entries = {}
        if wanted and key in plan.objects_of(wanted.installs) and (not applied or applied.version != wanted.version):
            # A config that failed, perhaps because this object was not here, is tried again.
            following = [(CONFIG, 0)]
            last = self._parts.store.get("result") or {}
            if last.get("result") == "failed" and installed != meta.get("fingerprint_sha256"):
                entries["result"] = {**last, "result": "again"}
        self._parts.store.end_task(task, *reports, entries=entries, next_tasks=following)

    def _end_failed(self, task: Task, type: str, field: str, error: Exception) -> None:
        self._parts.failures += 1
        self._parts.log.error("bundle refused", error=error, kind=task.kind, id=task.id)
        self._parts.store.end_task(task, report(type, **{field: task.id}, error=str(error)[: results.TEXT_MAX]))

    def _installed_files(self, key: tuple[str, int]) -> list[str]:
        config = self._parts.store.config("applied")
        items = config.installs if config else []
        return [path for item in items if item.enabled and plan.object_of(item) == key for path in item.targets]
