"""The delivery status of each client, for operators: how many events wait, are delivered, or are errored.

    waiting      published, not delivered yet (`unsigned` of these are still to be signed)
    delivered    delivered by a poll, not acknowledged yet
    errored      the client reported that it cannot use the event; listed with its reasons

All counts come from partial indexes alone, so a million rows do not slow them down.
"""

import msgspec

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.events.publishing import listing
from restante.events.push import receivers
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

REASONS_MAX = 100


class ClientStatus(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str
    name: str
    is_suspended: bool
    is_removed: bool
    waiting: int
    delivered: int
    errored: int
    oldest_at: Timestamp | None
    oldest_age_seconds: float | None
    last_poll_at: Timestamp | None


class ErrorReason(msgspec.Struct, frozen=True):
    err: str
    count: int
    newest_description: str | None


class ReceiverStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The push target of a client for one profile, and the recent results."""

    profile: str
    url: str
    failures: int
    problem: str | None
    waiting: int
    last_tried_at: Timestamp | None
    last_delivered_at: Timestamp | None


class ClientStatusDetail(ClientStatus, frozen=True, kw_only=True):
    unsigned: int
    reasons: list[ErrorReason]
    receivers: list[ReceiverStatus]


def list_page(conn: Connection, window: PageRequest, allowed: AllowedIds = ALL_IDS) -> Page[ClientStatus]:
    clients = client_scope.row_ids(conn, allowed)
    rows = conn.all(SQL.statuses, after=window.after, clients=clients, limit=window.limit + 1)
    return page_of(rows, window, "id", lambda row: _view(row, conn.now_ms))


def show(conn: Connection, client_id: str) -> ClientStatusDetail:
    client = listing.client_row_id(conn, client_id)
    [row] = conn.all(SQL.statuses, after=client - 1, clients=None, limit=1)
    unsigned = conn.one(SQL.unsigned, client=client)
    reasons = conn.all(SQL.reasons, client=client, limit=REASONS_MAX)
    return ClientStatusDetail(
        **msgspec.structs.asdict(_view(row, conn.now_ms)),
        unsigned=0 if unsigned is None else unsigned["count"],
        reasons=[ErrorReason(each["err"], each["count"], each["description"]) for each in reasons],
        receivers=[_receiver(state) for state in receivers.list_states(conn, client)],
    )


def _view(row: Row, now_ms: int) -> ClientStatus:
    delivered = row["delivered_open_banking"] + row["delivered_shared_signals"]
    oldest = min((row[name] for name in ("oldest_open_banking", "oldest_shared_signals") if row[name]), default=None)
    return ClientStatus(
        client_id=row["client_id"],
        name=row["name"],
        is_suspended=row["suspended_at"] is not None,
        is_removed=row["removed_at"] is not None,
        waiting=row["open"] - delivered,
        delivered=delivered,
        errored=row["errored"],
        oldest_at=iso_precise(oldest),
        oldest_age_seconds=None if oldest is None else max(now_ms - oldest, 0) / 1000,
        last_poll_at=iso_precise(row["last_poll_at"]),
    )


def _receiver(state: receivers.ReceiverState) -> ReceiverStatus:
    return ReceiverStatus(
        profile=state.profile,
        url=state.url,
        failures=state.failures,
        problem=state.problem,
        waiting=state.waiting,
        last_tried_at=iso_precise(state.last_tried_at),
        last_delivered_at=iso_precise(state.last_delivered_at),
    )
