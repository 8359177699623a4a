"""Bulk changes of install configs: the same content for all devices, or the same patch of each device's content."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.log.signals import EmitAll
from restante.identity import access_audit
from restante.jobs.actions import (
    Batch,
    BatchResult,
    ItemResult,
    JobAction,
    JobCaller,
    JobTarget,
    Laggard,
    RolloutAction,
    StoredParams,
    WaveCounts,
)
from restante.jobs.rollouts.rollout_items import results_of
from restante.updates.bulk.device_target import RolloutDevices, keep_polling_fast
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.install import config_batches
from restante.updates.install.config_batches import UNCHANGED, Content, ManyResult
from restante.updates.install.config_patch import ConfigPatch, Script, patched
from restante.updates.install.install_items import checked_installs

SQL = queries_beside(__file__)

ChangeNote = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*\Z")]


class PutConfigParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content that every device gets."""

    installs: list[dict[str, Any]]
    after_update_script: Script | None = None
    change_note: ChangeNote | None = None


class PatchConfigParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    patch: ConfigPatch
    change_note: ChangeNote | None = None


class _ConfigAction(RolloutAction[Any]):
    roll_back = (RolloutDevices.name, "restore_config")

    def __init__(self, target: JobTarget[Any], emit_all: EmitAll) -> None:
        self.target = target
        self._emit_all = emit_all

    def outcomes(self, conn: Connection, job: int) -> dict[str, int]:
        """How many devices have fetched, applied or failed the version that the job gave them."""
        return {row["outcome"]: row["devices"] for row in conn.all(SQL.outcomes, job=job)}

    def wave_counts(self, conn: Connection, job: int) -> WaveCounts:
        """A version that a later one has replaced does not count: no device reports about it any more."""
        counted = self.outcomes(conn, job)
        waiting = counted.get("waiting", 0) + counted.get("fetched", 0)
        return WaveCounts(counted.get("applied", 0), counted.get("failed", 0), waiting)

    def laggards(self, conn: Connection, rollout: int, after: int, limit: int) -> list[Laggard]:
        rows = conn.all(SQL.laggards, rollout=rollout, after=after, limit=limit)
        return [
            Laggard(
                item=row["item"],
                name=row["name"] or row["device_public_id"],
                wave=row["wave"],
                state="failed" if row["outcome"] == "failed" else "waiting",
                detail=row["detail"],
            )
            for row in rows
        ]

    def keep_pace(self, conn: Connection) -> None:
        keep_polling_fast(conn)

    def _result(self, conn: Connection, batch: Batch, ids: Sequence[int], many: ManyResult) -> BatchResult:
        details: list[dict[str, Any]] = [
            {"job_id": batch.job_id, "device_id": device_id, "version": many.versions[device_id]}
            for device_id in ids
            if device_id in many.versions
        ]
        access_audit.record_items(conn, batch.actor, f"device.{self.name}", batch.job, details)
        return BatchResult([_item(device_id, many) for device_id in ids])


class PutConfig(_ConfigAction):
    name = "put_config"
    params_type = PutConfigParams

    def check(
        self, conn: Connection, filters: DeviceFilter, params: PutConfigParams, caller: JobCaller
    ) -> StoredParams:
        try:
            checked_installs(params.installs)
        except BadInput as error:
            raise BadInput(f"params.{error.field}", error.expected) from None
        return super().check(conn, filters, params, caller)

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        params: PutConfigParams = batch.params
        content = Content(checked_installs(params.installs), params.after_update_script)
        note = params.change_note or f"job {batch.job_id}"
        many = config_batches.put_many(conn, self._emit_all, ids, content, batch.actor, note)
        return self._result(conn, batch, ids, many)


class PatchConfig(_ConfigAction):
    name = "patch_config"
    params_type = PatchConfigParams

    def check(
        self, conn: Connection, filters: DeviceFilter, params: PatchConfigParams, caller: JobCaller
    ) -> StoredParams:
        if params.patch.is_empty:
            raise BadInput("params.patch", "installs, after_update_script or both")
        try:
            if isinstance(params.patch.installs, list):
                checked_installs(params.patch.installs)
            else:
                patched(params.patch, [], None)
        except BadInput as error:
            raise BadInput(f"params.patch.{error.field}", error.expected) from None
        return super().check(conn, filters, params, caller)

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        params: PatchConfigParams = batch.params
        note = params.change_note or f"job {batch.job_id}"
        many = config_batches.patch_many(conn, self._emit_all, ids, params.patch, batch.actor, note)
        return self._result(conn, batch, ids, many)


class RestoreParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action has no parameters."""


class RestoreConfig(JobAction[RestoreParams]):
    """Rolls devices of a rollout back to the version before."""

    name = "restore_config"
    params_type = RestoreParams

    def __init__(self, target: RolloutDevices, emit_all: EmitAll) -> None:
        self.target = target
        self._emit_all = emit_all

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        results = results_of(conn, batch.rollout or 0, msgspec.json.encode(list(ids)).decode())
        versions = {device_id: int(results.get(device_id) or 0) for device_id in ids}
        many = config_batches.restore_many(
            conn, self._emit_all, versions, batch.actor, f"rolled back, job {batch.job_id}"
        )
        details = [
            {"job_id": batch.job_id, "device_id": device_id, "version": version}
            for device_id, version in many.versions.items()
        ]
        access_audit.record_items(conn, batch.actor, "device.restore_config", batch.job, details)
        return BatchResult([_item(device_id, many) for device_id in ids])


def _item(device_id: int, many: ManyResult) -> ItemResult:
    if device_id in many.versions:
        return ItemResult(device_id, result=str(many.versions[device_id]))
    if device_id in many.refused:
        return ItemResult(device_id, "failed", error=many.refused[device_id])
    is_unchanged = device_id in many.unchanged
    return ItemResult(device_id, "skipped", error=UNCHANGED if is_unchanged else "the device does not exist any more")
