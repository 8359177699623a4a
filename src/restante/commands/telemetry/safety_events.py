"""Safety events: actions that collectors took on their own, stored for operators to investigate.

Each event of a batch is checked on its own: a valid event is stored even if others are invalid.

An event of a miner that is not registered yet is stored with `miner_known` false until it is (`unknown_miners`).

Invariant: an event that a collector sends twice (same collector, miner, action and time) is stored once, and both
responses count it as processed.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.errors import NO_NUL
from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.commands.sites import unknown_miners
from restante.commands.sites.site_scope import site_filter
from restante.commands.telemetry.telemetry_records import RecordError
from restante.core.decoding import decode_json
from restante.core.errors import BadInput, TooLarge
from restante.core.iso_time import Timestamp, iso_precise, parse_iso
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import PAGE_SCAN, FilteredList, StateCounting, among, between, equal
from restante.database.paging import PAGE_BYTES_MAX, Page, PageRequest
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

EVENTS_MAX = 1000
EVENT_BYTES_MAX = 16 * 1024
TOO_MANY_UNKNOWN = "miner_id: expected a registered miner, because the site has too many events of others"

Action = Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"]
ACTIONS: tuple[str, ...] = get_args(Action)


class SafetyBatch(msgspec.Struct):
    events: Annotated[list[msgspec.Raw], Meta(min_length=1)]


class ReportedEvent(BodyWithIds, frozen=True):
    """An event as a collector reports it; unknown fields are ignored."""

    id_fields = ("miner_id",)

    miner_id: Id
    action: Action
    ts: str
    reason: Annotated[str, Meta(max_length=2000, pattern=NO_NUL)] = ""
    temp_max: float | None = None
    snapshot_json: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _ValidEvent:
    index: int
    event: ReportedEvent
    ts: int


@dataclass(frozen=True, slots=True)
class StoreResult:
    """`unknown_count`: how many of the processed events are of miners that are not registered."""

    processed: int
    errors: list[RecordError]
    received_at: int
    unknown_count: int = 0


class SafetyEvent(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    device_id: int
    miner_id: int
    action: str
    reason: str
    temp_max: float | None
    ts: Timestamp
    snapshot_json: msgspec.Raw | None
    received_at: Timestamp
    miner_known: bool


@dataclass(frozen=True, slots=True)
class SafetyFilter:
    """None means any. Event times: `since_ms` <= ts < `until_ms`."""

    site_id: int | None = None
    miner_id: int | None = None
    device_id: int | None = None
    action: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    miner_known: bool | None = None


def parse_batch(body: bytes) -> list[msgspec.Raw]:
    """The events of a body, not yet checked; BadInput if it is not a batch or is empty."""
    events = decode_json(body, SafetyBatch).events
    if len(events) > EVENTS_MAX:
        raise TooLarge(f"a batch has at most {EVENTS_MAX} events")
    return events


def store(
    conn: Connection, collector: CollectorCaller, events: list[msgspec.Raw], unknown_miners_max: int
) -> StoreResult:
    """Store the valid events of the collector's own site."""
    valid: list[_ValidEvent] = []
    errors: list[RecordError] = []
    for index, raw in enumerate(events):
        try:
            event = _decode_event(bytes(raw))
            valid.append(_ValidEvent(index, event, parse_iso(event.ts, "ts")))
        except BadInput as error:
            errors.append(RecordError(index, error.message))
    own = _own_miners(conn, collector.site_id, valid)
    if any(each.event.miner_id not in own for each in valid):
        # Under the lock no miner is registered meanwhile.
        conn.lock(SITE_LOCK, collector.site_id)
        own = _own_miners(conn, collector.site_id, valid)
    known = [each for each in valid if each.event.miner_id in own]
    unknown = [each for each in valid if each.event.miner_id not in own]
    unknown, refused = _admit_unknown(conn, collector.site_id, unknown, unknown_miners_max)
    errors += refused
    rows = [_columns(each, collector, conn.now_ms, miner_known=True) for each in known]
    rows += [_columns(each, collector, conn.now_ms, miner_known=False) for each in unknown]
    conn.run_many(SQL.insert_event, rows)
    return StoreResult(len(rows), sorted(errors, key=lambda error: error.index), conn.now_ms, len(unknown))


def list_page(
    conn: Connection,
    filters: SafetyFilter,
    page: PageRequest,
    sites: AllowedIds = ALL_IDS,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Page[SafetyEvent]:
    """A page of the events of the allowed sites, newest first."""
    return filtered_list.read(conn, filtered(filters, sites), page, _view, bytes_max, scan=max(PAGE_SCAN, page.limit))


def counting(filters: SafetyFilter, sites: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the events of the allowed sites that match, by action."""
    return StateCounting(lambda _conn: filtered(filters, sites), "action", ACTIONS)


def filtered(filters: SafetyFilter, sites: AllowedIds) -> FilteredList:
    """The list of the events that match: those of a site are read from its index."""
    site_id = site_filter(sites, filters.site_id)
    return FilteredList(
        "*",
        "safety_events",
        indexed=equal("site_id", site_id),
        rest=(
            *among("site_id", None if site_id is not None and site_id in sites else sites.as_json()),
            *equal("miner_id", filters.miner_id),
            *equal("device_id", filters.device_id),
            *equal("action", filters.action),
            *between("ts", filters.since_ms, filters.until_ms),
            *equal("miner_known", None if filters.miner_known is None else int(filters.miner_known)),
        ),
    )


def _decode_event(raw: bytes) -> ReportedEvent:
    if len(raw) > EVENT_BYTES_MAX:
        raise BadInput("event", f"at most {EVENT_BYTES_MAX} bytes of JSON")
    return decode_json(raw, ReportedEvent)


def _admit_unknown(
    conn: Connection, site_id: int, events: list[_ValidEvent], miners_max: int
) -> tuple[list[_ValidEvent], list[RecordError]]:
    """The events of miners that are not registered that may be stored, and the errors of the others."""
    if not events:
        return [], []
    admission = unknown_miners.admit(conn, site_id, {each.event.miner_id for each in events}, miners_max)
    refusals = admission.refusals
    errors = [
        RecordError(each.index, refusals[each.event.miner_id]) for each in events if each.event.miner_id in refusals
    ]
    admitted = [each for each in events if each.event.miner_id in admission.keys]
    room = max(0, unknown_miners.room_for_events(conn, site_id, miners_max))
    errors += [RecordError(each.index, TOO_MANY_UNKNOWN) for each in admitted[room:]]
    return admitted[:room], errors


def _own_miners(conn: Connection, site_id: int, events: list[_ValidEvent]) -> set[int]:
    miner_ids = msgspec.json.encode(sorted({each.event.miner_id for each in events})).decode()
    return {row["id"] for row in conn.all(SQL.own_miners, site_id=site_id, miner_ids=miner_ids)}


def _columns(valid: _ValidEvent, collector: CollectorCaller, now_ms: int, *, miner_known: bool) -> dict[str, Any]:
    event = valid.event
    snapshot = event.snapshot_json
    return {
        "site_id": collector.site_id,
        "device_id": collector.device_id,
        "miner_id": event.miner_id,
        "action": event.action,
        "reason": event.reason,
        "temp_max": event.temp_max,
        "ts": valid.ts,
        "snapshot_json": None if snapshot is None else msgspec.json.encode(snapshot).decode(),
        "received_at": now_ms,
        "miner_known": int(miner_known),
    }


def _view(row: Row) -> SafetyEvent:
    snapshot = row["snapshot_json"]
    return SafetyEvent(
        **{
            **dict(row),
            "ts": iso_precise(row["ts"]),
            "snapshot_json": None if snapshot is None else msgspec.Raw(snapshot.encode()),
            "received_at": iso_precise(row["received_at"]),
            "miner_known": bool(row["miner_known"]),
        }
    )
