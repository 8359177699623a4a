"""Bulk actions on events: release or drop errored ones, deliver acknowledged ones again.

    release      errored      ─▶ ready: delivered again, with the same bytes
    drop         errored      ─▶ dropped: never delivered again
    redeliver    acknowledged ─▶ ready: for a client that has lost what it had acknowledged

An action finds only events in the state that it applies to. Acknowledged events can be delivered again until their
retention ends, unless their client was removed. Every event is recorded in the audit log.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from restante.core.iso_time import parse_iso
from restante.database.connection import Connection, Row
from restante.database.queries import Query, queries_beside
from restante.events.clients import client_scope
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing import event_audit, listing
from restante.events.publishing.event_audit import NewAction
from restante.events.push.receivers import PushDue
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import Batch, BatchResult, IdPage, ItemResult, JobAction, JobTarget, id_page

SQL = queries_beside(__file__)

Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*\Z")]


class EventBulkFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events of a client, of a transaction, with an error code, or of a time.

    `since`, `until`: when the event was published. `acknowledged_since`: when the client acknowledged it.
    """

    client_id: Text | None = None
    txn: Text | None = None
    err: Text | None = None
    since: str | None = None
    until: str | None = None
    acknowledged_since: str | None = None


class StoredEventFilter(EventBulkFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filter with the state that the action applies to."""

    status: str = ""


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action has no parameters."""


class EventTarget(JobTarget[StoredEventFilter]):
    name = "events"
    area = Area.events
    filter_type = StoredEventFilter

    @property
    def given_type(self) -> type:
        return EventBulkFilter

    def check(self, conn: Connection, filters: StoredEventFilter, allowed: AllowedIds) -> None:
        _times(filters)
        if filters.client_id is not None:
            listing.check_client(allowed, filters.client_id)
            listing.client_row_id(conn, filters.client_id)

    def scope(self, filters: StoredEventFilter, allowed: AllowedIds) -> AllowedIds:
        return allowed if filters.client_id is None else AllowedIds(frozenset([filters.client_id]))

    def count(self, conn: Connection, filters: StoredEventFilter, allowed: AllowedIds) -> int:
        row = conn.one(SQL.count, **_bound(conn, filters, allowed))
        return 0 if row is None else int(row["events"])

    def sample(self, conn: Connection, filters: StoredEventFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        ids = self.ids_after(conn, filters, allowed, 0, limit).ids
        return [listing.view(row) for row in self.by_ids(conn, ids)]

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["id"] is None else int(row["id"])

    def ids_after(
        self, conn: Connection, filters: StoredEventFilter, allowed: AllowedIds, after: int, limit: int
    ) -> IdPage:
        rows = conn.all(SQL.events_after, **_bound(conn, filters, allowed), after=after, limit=limit)
        return id_page([row["id"] for row in rows], limit)

    def by_ids(self, conn: Connection, ids: Sequence[int]) -> list[Row]:
        return conn.all(SQL.by_ids, ids=msgspec.json.encode(list(ids)).decode())

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        event_audit.record(conn, actor, event, None, detail)


class EventAction(JobAction[NoParams]):
    """Changes the state of the events that have the state `applies_to`."""

    params_type = NoParams
    applies_to: ClassVar[str]
    # The name of the change in the audit log, and whether it makes events deliverable.
    past_tense: ClassVar[str]
    is_delivering: ClassVar[bool] = True

    def __init__(self, target: EventTarget) -> None:
        self.target = self._events = target

    def narrow(self, filters: EventBulkFilter) -> StoredEventFilter:
        return StoredEventFilter(**msgspec.structs.asdict(filters), status=self.applies_to)

    def query(self) -> Query:
        raise NotImplementedError

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        rows = self._events.by_ids(conn, ids)
        changed = {
            row["id"] for row in conn.all(self.query(), ids=msgspec.json.encode(list(ids)).decode(), now_ms=conn.now_ms)
        }
        done = [row for row in rows if row["id"] in changed]
        event_audit.record_all(
            conn,
            [NewAction(batch.actor, f"event.{self.past_tense}", row["client_id"], _detail(batch, row)) for row in done],
        )
        if self.is_delivering and done:
            for client in {row["client"] for row in done}:
                conn.add_commit_event(InboxChanged(client))
            conn.add_commit_event(PushDue())
        return BatchResult([self._result(row, is_done=row["id"] in changed) for row in rows])

    def _result(self, row: Row, *, is_done: bool) -> ItemResult:
        if is_done:
            return ItemResult(row["id"], ref=row["jti"])
        return ItemResult(row["id"], "skipped", row["jti"], error=f"it is not {self.applies_to} any more")


class ReleaseEvents(EventAction):
    name = "release"
    applies_to = "errored"
    past_tense = "released"

    def query(self) -> Query:
        return SQL.release


class DropEvents(EventAction):
    name = "drop"
    applies_to = "errored"
    past_tense = "dropped"
    is_delivering = False

    def query(self) -> Query:
        return SQL.drop


class RedeliverEvents(EventAction):
    name = "redeliver"
    applies_to = "acknowledged"
    past_tense = "redelivered"

    def query(self) -> Query:
        return SQL.redeliver


def event_job_actions() -> list[JobAction[Any]]:
    target = EventTarget()
    return [ReleaseEvents(target), DropEvents(target), RedeliverEvents(target)]


def _detail(batch: Batch, row: Row) -> dict[str, Any]:
    return {"jti": row["jti"], "job_id": batch.job_id}


def _times(filters: EventBulkFilter) -> dict[str, int | None]:
    values = {
        "since": filters.since,
        "until": filters.until,
        "acknowledged_since": filters.acknowledged_since,
    }
    return {name: None if text is None else parse_iso(text, f"filter.{name}") for name, text in values.items()}


def _bound(conn: Connection, filters: StoredEventFilter, allowed: AllowedIds) -> dict[str, Any]:
    return {
        "client_id": filters.client_id,
        "status": filters.status,
        "txn": filters.txn,
        "err": filters.err,
        "clients": client_scope.row_ids(conn, allowed),
        **_times(filters),
    }
