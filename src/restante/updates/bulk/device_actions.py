"""Bulk actions on devices: send a signal, assign a certificate or an authority, revoke."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.delivery.log.signals import TYPE_CHARACTERS_MAX, Emit, EmitAll, check_signal
from restante.identity import access_audit
from restante.jobs.actions import (
    Batch,
    BatchResult,
    ItemResult,
    JobAction,
    JobCaller,
    JobTarget,
    StoredParams,
    run_each,
)
from restante.updates.bulk.device_target import RolloutDevices, devices_by_id
from restante.updates.bulk.received_reports import ReceivedAction
from restante.updates.devices import devices
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.pki import assignments, authorities

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]


class SignalParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Annotated[str, Meta(min_length=1, max_length=TYPE_CHARACTERS_MAX)]
    ref: dict[str, Any] = {}


class CertificateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cert_id: Id


class AuthorityParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ca_id: Id


class RevokeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action has no parameters."""


class _DeviceAction(JobAction[Any]):
    """Acts on one device after the other, and leaves an audit row of each."""

    def __init__(self, target: JobTarget[Any]) -> None:
        self.target = target

    def _run(self, conn: Connection, batch: Batch, ids: Sequence[int], act: Callable[[Row], str | None]) -> BatchResult:
        """`act` changes the device, or returns why there is nothing to do."""
        known = devices_by_id(conn, msgspec.json.encode(list(ids)).decode())

        def run(device_id: int) -> ItemResult:
            if device_id not in known:
                raise NotFound("there is no such device")
            row = known[device_id]
            reason = act(row)
            state = "done" if reason is None else "skipped"
            return ItemResult(device_id, state, row["device_public_id"], error=reason)  # type: ignore[arg-type]

        result = run_each(ids, run)
        params = msgspec.to_builtins(batch.params)
        done = [
            {"job_id": batch.job_id, "device_id": each.item, **params}
            for each in result.results
            if each.state == "done"
        ]
        access_audit.record_items(conn, batch.actor, f"device.{self.name}", batch.job, done)
        return result


class _EmittingAction(_DeviceAction):
    """Sends a signal with the change of each device."""

    def __init__(self, target: JobTarget[Any], emit: Emit) -> None:
        super().__init__(target)
        self._emit = emit


class SendSignal(_DeviceAction):
    """The signals of a batch are added to the outbox together."""

    name = "send_signal"
    params_type = SignalParams

    def __init__(self, target: JobTarget[Any], emit_all: EmitAll) -> None:
        super().__init__(target)
        self._emit_all = emit_all

    def check(self, conn: Connection, filters: DeviceFilter, params: SignalParams, caller: JobCaller) -> StoredParams:
        try:
            check_signal(params.type, conn.now_ms, params.ref)
        except BadInput as error:
            raise BadInput(f"params.{error.field}", error.expected) from None
        return super().check(conn, filters, params, caller)

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        signal = check_signal(batch.params.type, conn.now_ms, batch.params.ref)

        def check(device: Row) -> None:
            if device["revoked_at"] is not None:
                raise Conflict("the device is revoked")

        result = self._run(conn, batch, ids, check)
        self._emit_all(conn, {each.item: signal for each in result.results if each.state == "done"})
        return result


class AssignCertificate(_DeviceAction, ReceivedAction):
    name = "assign_certificate"
    params_type = CertificateParams
    roll_back = (RolloutDevices.name, "unassign_certificate")

    def undo_params(self, params: CertificateParams) -> dict[str, Any]:
        return {"cert_id": params.cert_id}

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        cert_id = batch.params.cert_id

        def assign(device: Row) -> str | None:
            if assignments.is_assigned(conn, device["id"], cert_id):
                return "it has this certificate already"
            assignments.assign(conn, device["user_id"], device["id"], cert_id)
            return None

        return self._run(conn, batch, ids, assign)


class UnassignCertificate(_EmittingAction):
    """Rolls back the assignment of a certificate."""

    name = "unassign_certificate"
    params_type = CertificateParams

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        def unassign(device: Row) -> None:
            assignments.unassign(conn, self._emit, device["user_id"], device["id"], batch.params.cert_id)

        return self._run(conn, batch, ids, unassign)


class AssignAuthority(_EmittingAction):
    name = "assign_ca"
    params_type = AuthorityParams

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        def assign(device: Row) -> None:
            authorities.assign(conn, self._emit, device["user_id"], device["id"], batch.params.ca_id)

        return self._run(conn, batch, ids, assign)


class RevokeDevices(_DeviceAction):
    name = "revoke"
    params_type = RevokeParams

    def narrow(self, filters: DeviceFilter) -> DeviceFilter:
        return filters if filters.status is not None else msgspec.structs.replace(filters, status="active")

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        def revoke(device: Row) -> str | None:
            if device["revoked_at"] is not None:
                return "it was revoked before"
            devices.revoke(conn, device["id"])
            return None

        return self._run(conn, batch, ids, revoke)
