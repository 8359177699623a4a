"""What a device has got: its position in the log, the versions of its install config, and a line for each signal.

    queued ──dispatcher──▶ published ──cursor of a later poll──▶ received ──report──▶ applied or failed

A device confirms signals by the cursor that it sends with its next poll. The newest confirmed positions are in the
memory of the server that answered the polls; the caller passes them as `Remembered`. Everything else is read from the
tables. Domain code: uses neither HTTP nor polls.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from restante.core.cursor import START, LogHead, Position
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.delivery.log import log
from restante.updates.fleet.device_rows import ConfigState

SQL = queries_beside(__file__)


SignalState = Literal["queued", "undeliverable", "published", "received", "applied", "failed"]


class Remembered(NamedTuple):
    """The state of a device in the memory of this server, beyond the tables; times in milliseconds."""

    seen_ms: int | None = None
    overdue_ms: int | None = None
    position: Position = START


class ConfigDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of the install config: the current one (`wanted`), the one that the device fetched last, and the newest
    that it reported as applied or as failed; `failure`: what it said about that. Times are UTC."""

    state: ConfigState
    wanted: int | None = None
    wanted_at: Timestamp | None = None
    fetched: int | None = None
    fetched_at: Timestamp | None = None
    applied: int | None = None
    applied_at: Timestamp | None = None
    failed: int | None = None
    failed_at: Timestamp | None = None
    failure: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor`: the position that the device has confirmed; `newest_cursor`: the end of its log. `lag_signals`: how
    many published signals it has not confirmed; `lag_seconds`: how long the oldest of these is published. `queued`: how
    many signals are not published yet, `undeliverable`: how many cannot be. Times are UTC."""

    cursor: str | None
    newest_cursor: str
    lag_signals: int
    lag_seconds: float
    queued: int
    undeliverable: int
    last_poll_at: Timestamp | None
    is_overdue: bool
    overdue_at: Timestamp | None
    last_report_at: Timestamp | None
    config: ConfigDelivery


class SignalLine(msgspec.Struct, frozen=True, kw_only=True):
    """A signal and how far it has come; times are UTC. `received_at`: when the device confirmed it, to about half a
    minute. `failure`: why it could not be published, or what the device said about it."""

    n: int | None
    cursor: str | None
    type: str
    ref: msgspec.Raw
    state: SignalState
    queued_at: Timestamp
    published_at: Timestamp | None = None
    received_at: Timestamp | None = None
    applied_at: Timestamp | None = None
    failed_at: Timestamp | None = None
    failure: str | None = None


class DeviceFacts(NamedTuple):
    """What the tables and memory know about the delivery to a device; times in milliseconds."""

    row: Row
    head: LogHead
    received: Position
    seen_ms: int | None
    overdue_ms: int | None
    oldest_unreceived_ms: int | None
    queued: int
    undeliverable: int

    @property
    def lag_signals(self) -> int:
        return max(0, self.head.newest.n - self.received.n)

    def is_overdue(self, now_ms: int) -> bool:
        return self.row["revoked_at"] is None and self.overdue_ms is not None and self.overdue_ms < now_ms


def facts_of(conn: Connection, device_id: int, remembered: Remembered) -> DeviceFacts | None:
    """None if there is no such device."""
    row = conn.one(SQL.delivery, device_id=device_id)
    if row is None:
        return None
    head = log.read_head(conn, device_id)
    stored = Position(row["received_ms"] or 0, row["received_n"] or 0)
    received = max(stored, remembered.position, key=lambda position: position.n)
    seen_ms, overdue_ms = row["last_seen_at"] or None, row["overdue_at"]
    if remembered.seen_ms is not None and remembered.seen_ms >= (seen_ms or 0):
        seen_ms, overdue_ms = remembered.seen_ms, remembered.overdue_ms
    oldest = conn.one(SQL.oldest_unreceived, device_id=device_id, ms=received.ms, n=received.n)
    counted = conn.one(SQL.count_outbox, device_id=device_id)
    return DeviceFacts(
        row,
        head,
        received,
        seen_ms,
        overdue_ms,
        None if oldest is None or received.n >= head.newest.n else oldest["ms"],
        0 if counted is None else counted["queued"],
        0 if counted is None else counted["undeliverable"],
    )


def delivery_of(conn: Connection, facts: DeviceFacts) -> Delivery:
    row, now_ms = facts.row, conn.now_ms
    oldest = facts.oldest_unreceived_ms
    overdue_ms = facts.overdue_ms if row["revoked_at"] is None else None
    return Delivery(
        cursor=str(facts.received) if facts.received.n else None,
        newest_cursor=str(facts.head.newest),
        lag_signals=facts.lag_signals,
        lag_seconds=0.0 if oldest is None else max(0, now_ms - oldest) / 1000,
        queued=facts.queued,
        undeliverable=facts.undeliverable,
        last_poll_at=iso_precise(facts.seen_ms or None),
        is_overdue=facts.is_overdue(now_ms),
        overdue_at=iso_precise(overdue_ms or None),
        last_report_at=iso_precise(row["agent_reported_at"] or None),
        config=config_of(row),
    )


def config_of(row: Row) -> ConfigDelivery:
    if row["version"] is None:
        return ConfigDelivery(state="none")
    return ConfigDelivery(
        state=row["state"],
        wanted=row["version"],
        wanted_at=iso_precise(row["config_updated_at"]),
        fetched=row["fetched_version"] or None,
        fetched_at=iso_precise(row["fetched_at"] or None),
        applied=row["applied_version"] or None,
        applied_at=iso_precise(row["applied_at"] or None),
        failed=row["failed_version"] or None,
        failed_at=iso_precise(row["failed_at"] or None),
        failure=row["failure"],
    )


def signal_lines(conn: Connection, device_id: int, facts: DeviceFacts, page: PageRequest) -> Page[SignalLine]:
    """The signals of the device, newest first. The first page begins with those that are not published."""
    before = page.after or INT64_MAX
    rows = conn.all(SQL.signals, device_id=device_id, before=before, limit=page.limit + 1)
    shown = rows[: page.limit]
    lines = [] if page.after else [_queued_line(row) for row in conn.all(SQL.unpublished, device_id=device_id)]
    receipts = _receipts(conn, device_id, shown)
    lines.extend(_published_line(row, facts, receipts) for row in shown)
    return Page(lines, shown[-1]["n"] if len(rows) > page.limit else None)


def _receipts(conn: Connection, device_id: int, rows: list[Row]) -> list[tuple[int, int]]:
    """The receipts that the signals need, as (n, time), in ascending order."""
    if not rows:
        return []
    found = conn.values(SQL.receipts, device_id=device_id, least=rows[-1]["n"], limit=len(rows) + 1)
    return [(n, at) for n, at in found]


def _queued_line(row: Row) -> SignalLine:
    is_failed = row["status"] == "FAILED"
    return SignalLine(
        n=None,
        cursor=None,
        type=row["event_kind"],
        ref=_ref_of_payload(row["payload"]),
        state="undeliverable" if is_failed else "queued",
        queued_at=iso_precise(row["created_at"]),
        failure=row["failure_reason"],
    )


def _published_line(row: Row, facts: DeviceFacts, receipts: list[tuple[int, int]]) -> SignalLine:
    n = row["n"]
    is_received = n <= facts.received.n
    received_ms = next((at for upto, at in receipts if upto >= n), facts.seen_ms) if is_received else None
    outcome: SignalState | None = row["outcome"]
    state: SignalState = outcome or ("received" if is_received else "published")
    return SignalLine(
        n=n,
        cursor=str(Position(row["ms"], n)),
        type=row["type"],
        ref=msgspec.Raw(row["ref"].encode()),
        state=state,
        queued_at=iso_precise(row["ts_ms"]),
        published_at=iso_precise(row["ms"]),
        received_at=iso_precise(received_ms or None),
        applied_at=iso_precise(row["outcome_at"]) if outcome == "applied" else None,
        failed_at=iso_precise(row["outcome_at"]) if outcome == "failed" else None,
        failure=row["detail"],
    )


def _ref_of_payload(payload: str) -> msgspec.Raw:
    """The `ref` of a row of the outbox; an empty object if an application wrote something else."""
    try:
        decoded: Any = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = None
    ref = decoded.get("ref") if isinstance(decoded, dict) else None
    return msgspec.Raw(msgspec.json.encode(ref if isinstance(ref, dict) else {}))
