"""Bulk renewal of the certificates of devices.

    plan (read) ─▶ make keys and certificates (a thread, no transaction) ─▶ store (the transaction of the batch)

A certificate of several devices is renewed once in a job. A certificate that another request renewed since the job was
created is left as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit
from restante.identity import access_audit
from restante.identity.master_key import MasterKey
from restante.jobs.actions import Batch, BatchResult, ItemResult
from restante.updates.bulk.device_target import DeviceTarget
from restante.updates.bulk.received_reports import ReceivedAction
from restante.updates.pki import issuing
from restante.updates.pki.crypto.issued_certificate import IssuedCertificate
from restante.updates.pki.issuing import VALIDITY_SECONDS_MAX, VALIDITY_SECONDS_MIN, IssuePlan, IssueRules

SQL = queries_beside(__file__)

WITHIN_SECONDS_MAX = 3650 * 86_400


class RenewParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`expiring_within_seconds`: only certificates that end by then. `validity_seconds`: of the new ones."""

    validity_seconds: Annotated[int, Meta(ge=VALIDITY_SECONDS_MIN, le=VALIDITY_SECONDS_MAX)] | None = None
    expiring_within_seconds: Annotated[int, Meta(ge=1, le=WITHIN_SECONDS_MAX)] | None = None


@dataclass(frozen=True, slots=True)
class _Renewal:
    """A planned renewal, its certificate, or why there is none."""

    cert_id: int
    plan: IssuePlan | None = None
    issued: IssuedCertificate | None = None
    error: str | None = None


class RenewCertificates(ReceivedAction):
    name = "renew_certificates"
    params_type = RenewParams
    has_preparation = True
    batch_items = 10

    def __init__(self, target: DeviceTarget, emit: Emit, master_key: MasterKey, rules: IssueRules) -> None:
        self.target = target
        self._emit = emit
        self._master_key = master_key
        self._rules = rules

    def plan(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> Any:
        """The renewals of each device. A certificate is in the list of its first device only."""
        planned: dict[int, list[_Renewal]] = {device_id: [] for device_id in ids}
        seen: set[int] = set()
        for row in conn.all(SQL.certificates, ids=_encoded(ids), **self._bounds(conn, batch)):
            if row["id"] not in seen:
                seen.add(row["id"])
                planned[row["device_id"]].append(_planned(conn, row["user_id"], row["id"], self._rules))
        return planned, batch.params.validity_seconds

    def make(self, plan: Any) -> Mapping[int, Any]:
        planned, validity_seconds = plan
        return {
            device_id: [self._made(renewal, validity_seconds) for renewal in renewals]
            for device_id, renewals in planned.items()
        }

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        results = [self._renew(conn, device_id, batch.made[device_id]) for device_id in ids]
        details = [
            {"job_id": batch.job_id, "device_id": each.item, "certificates": each.result}
            for each in results
            if each.state == "done"
        ]
        access_audit.record_items(conn, batch.actor, "device.renew_certificates", batch.job, details)
        return BatchResult(results)

    def _renew(self, conn: Connection, device_id: int, renewals: list[_Renewal]) -> ItemResult:
        renewed: list[str] = []
        errors: list[str] = []
        for renewal in renewals:
            error = renewal.error or self._store(conn, renewal)
            if error is None:
                renewed.append(str(renewal.cert_id))
            else:
                errors.append(f"certificate {renewal.cert_id}: {error}")
        if errors:
            return ItemResult(device_id, "failed", result=",".join(renewed) or None, error="; ".join(errors)[:500])
        if not renewed:
            return ItemResult(device_id, "skipped", error="it has no certificate that is still to be renewed")
        return ItemResult(device_id, result=",".join(renewed))

    def _store(self, conn: Connection, renewal: _Renewal) -> str | None:
        """Store the new certificate; the reason if that is refused."""
        if renewal.plan is None or renewal.issued is None:
            return "it was not made"
        try:
            issuing.store(conn, self._emit, renewal.plan, renewal.issued)
        except RestanteError as error:
            return error.message
        return None

    def _made(self, renewal: _Renewal, validity_seconds: int | None) -> _Renewal:
        if renewal.plan is None:
            return renewal
        try:
            issued = issuing.make_certificate(renewal.plan, self._master_key, validity_seconds)
        except RestanteError as error:
            return _Renewal(renewal.cert_id, error=error.message)
        return _Renewal(renewal.cert_id, renewal.plan, issued)

    def _bounds(self, conn: Connection, batch: Batch) -> dict[str, int | None]:
        within = batch.params.expiring_within_seconds
        return {
            "issued_before": batch.created_at,
            "ends_before": None if within is None else conn.now_ms + within * 1000,
        }


def _planned(conn: Connection, user_id: int, cert_id: int, rules: IssueRules) -> _Renewal:
    try:
        return _Renewal(cert_id, issuing.plan(conn, user_id, cert_id, rules))
    except RestanteError as error:
        return _Renewal(cert_id, error=error.message)


def _encoded(ids: Sequence[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()
