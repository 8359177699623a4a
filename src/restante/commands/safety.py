"""Safety events: what collectors had to do by themselves, kept once each, for people to look into.

Each event of a batch stands for itself: a good one is kept whatever its neighbours are. Must always hold: an event that
is sent twice, the same collector, miner, action and time, is there once, and both times the answer is that it is.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from restante.commands.telemetry_records import RecordError
from restante.commands.wire import NO_NUL, iso_precise, parse_iso
from restante.core.errors import BadInput, TooLarge
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller
from restante.web.ask import INT64_MAX, decode_json
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

EVENTS_MAX = 1000
EVENT_BYTES_MAX = 16 * 1024

Action = Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"]
ACTIONS: tuple[str, ...] = get_args(Action)


class SafetyBatch(msgspec.Struct):
    events: Annotated[list[msgspec.Raw], Meta(min_length=1)]


class ReportedEvent(msgspec.Struct):
    """An event as a collector tells it; what else it tells is not kept."""

    miner_id: Annotated[int, Meta(ge=1, le=INT64_MAX)]
    action: Action
    ts: str
    reason: Annotated[str, Meta(max_length=2000, pattern=NO_NUL)] = ""
    temp_max: float | None = None
    snapshot_json: dict[str, Any] | None = None


class _Good(NamedTuple):
    place: int
    event: ReportedEvent
    ts: int


class Kept(NamedTuple):
    processed: int
    errors: list[RecordError]
    received_at: int


class SafetyEvent(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    device_id: int
    miner_id: int
    action: str
    reason: str
    temp_max: float | None
    ts: str
    snapshot_json: msgspec.Raw | None
    received_at: str


@dataclass(frozen=True, slots=True)
class SafetyFilter:
    """None: whatever it is. Times of the events: from `since_ms` on, and before `until_ms`."""

    site_id: int | None = None
    miner_id: int | None = None
    device_id: int | None = None
    action: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def parse_batch(body: bytes) -> list[msgspec.Raw]:
    """The events of a body, each still to be looked at; BadInput where it is no batch or an empty one."""
    events = decode_json(body, SafetyBatch).events
    if len(events) > EVENTS_MAX:
        raise TooLarge(f"a batch has at most {EVENTS_MAX} events")
    return events


def keep(conn: Connection, collector: CollectorCaller, events: list[msgspec.Raw]) -> Kept:
    good: list[_Good] = []
    errors: list[RecordError] = []
    for place, raw in enumerate(events):
        try:
            event = _event(bytes(raw))
            good.append(_Good(place, event, parse_iso(event.ts, "ts")))
        except BadInput as error:
            errors.append(RecordError(place, error.message))
    own = _own_miners(conn, collector.site_id, good)
    strangers = [each for each in good if each.event.miner_id not in own]
    errors += [RecordError(each.place, "miner_id: expected the id of a miner of the site") for each in strangers]
    rows = [_columns(each, collector, conn.now_ms) for each in good if each.event.miner_id in own]
    conn.run_many(SQL.insert_event, rows)
    return Kept(len(rows), sorted(errors, key=lambda error: error.index), conn.now_ms)


def list_page(conn: Connection, wanted: SafetyFilter, window: Window) -> Page[SafetyEvent]:
    """The events, newest first."""
    rows = conn.all(
        SQL.events if wanted.site_id is None else SQL.events_of_site,
        site_id=wanted.site_id,
        miner_id=wanted.miner_id,
        device_id=wanted.device_id,
        action=wanted.action,
        since_ms=wanted.since_ms or 0,
        until_ms=INT64_MAX if wanted.until_ms is None else wanted.until_ms,
        before=window.after or INT64_MAX,
        limit=window.limit + 1,
    )
    return page_of(rows, window, "id", _view)


def _event(raw: bytes) -> ReportedEvent:
    if len(raw) > EVENT_BYTES_MAX:
        raise BadInput("event", f"at most {EVENT_BYTES_MAX} bytes of JSON")
    return decode_json(raw, ReportedEvent)


def _own_miners(conn: Connection, site_id: int, good: list[_Good]) -> set[int]:
    wanted = msgspec.json.encode(sorted({each.event.miner_id for each in good})).decode()
    return {row["id"] for row in conn.all(SQL.own_miners, site_id=site_id, miner_ids=wanted)}


def _columns(each: _Good, collector: CollectorCaller, now_ms: int) -> dict[str, Any]:
    event = each.event
    snapshot = event.snapshot_json
    return {
        "site_id": collector.site_id,
        "device_id": collector.device_id,
        "miner_id": event.miner_id,
        "action": event.action,
        "reason": event.reason,
        "temp_max": event.temp_max,
        "ts": each.ts,
        "snapshot_json": None if snapshot is None else msgspec.json.encode(snapshot).decode(),
        "received_at": now_ms,
    }


def _view(row: Row) -> SafetyEvent:
    snapshot = row["snapshot_json"]
    return SafetyEvent(
        **{
            **dict(row),
            "ts": iso_precise(row["ts"]),
            "snapshot_json": None if snapshot is None else msgspec.Raw(snapshot.encode()),
            "received_at": iso_precise(row["received_at"]),
        }
    )
