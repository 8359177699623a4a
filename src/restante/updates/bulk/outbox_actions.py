"""Bulk actions on rows of the server's own outbox: retry those that were given up.

Only FAILED rows can be retried, so a job finds only those. Rows of external outboxes are in other databases, whose
changes cannot be committed together with a job; `POST /apiv1/outbox/retry?source=` serves them.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.outbox import outbox
from restante.identity import access_audit
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import Batch, BatchResult, IdPage, ItemResult, JobAction, JobTarget, id_page

SQL = queries_beside(__file__)

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*\Z")]


class OutboxFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """FAILED rows for one device, of one type of signal, with a text in their failure, or of a time."""

    device_id: Id | None = None
    event_kind: Text | None = None
    failure_contains: Text | None = None
    created_after: str | None = None
    created_before: str | None = None


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action has no parameters."""


class OutboxTarget(JobTarget[OutboxFilter]):
    name = "outbox"
    area = Area.updates
    filter_type = OutboxFilter

    def check(self, conn: Connection, filters: OutboxFilter, allowed: AllowedIds) -> None:  # noqa: ARG002
        _bound(filters, allowed)

    def scope(self, filters: OutboxFilter, allowed: AllowedIds) -> AllowedIds:  # noqa: ARG002
        return allowed

    def count(self, conn: Connection, filters: OutboxFilter, allowed: AllowedIds) -> int:
        row = conn.one(SQL.count, **_bound(filters, allowed))
        return 0 if row is None else int(row["rows"])

    def sample(self, conn: Connection, filters: OutboxFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        ids = self.ids_after(conn, filters, allowed, 0, limit).ids
        return [outbox.get_row(conn, row_id) for row_id in ids]

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None else int(row["id"])

    def ids_after(self, conn: Connection, filters: OutboxFilter, allowed: AllowedIds, after: int, limit: int) -> IdPage:
        rows = conn.all(SQL.failed_after, **_bound(filters, allowed), after=after, limit=limit)
        return id_page([row["id"] for row in rows], limit)

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        access_audit.record_other(conn, actor, event, detail)


class RetryOutboxRows(JobAction[NoParams]):
    name = "retry"
    params_type = NoParams

    def __init__(self, target: OutboxTarget) -> None:
        self.target = target

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        results = [
            ItemResult(row_id)
            if outbox.retry(conn, [row_id])
            else ItemResult(row_id, "skipped", error="it is not FAILED")
            for row_id in ids
        ]
        details = [{"job_id": batch.job_id, "row_id": each.item} for each in results if each.state == "done"]
        access_audit.record_items(conn, batch.actor, "outbox.retried", batch.job, details)
        return BatchResult(results)


def outbox_actions() -> list[JobAction[Any]]:
    return [RetryOutboxRows(OutboxTarget())]


def _bound(filters: OutboxFilter, allowed: AllowedIds) -> dict[str, Any]:
    return {
        "device_id": filters.device_id,
        "event_kind": filters.event_kind,
        "failure": filters.failure_contains,
        "created_after": _ms(filters.created_after, "filter.created_after"),
        "created_before": _ms(filters.created_before, "filter.created_before"),
        "users": allowed.as_json(),
    }


def _ms(text: str | None, field: str) -> int | None:
    return None if text is None else parse_iso(text, field)
