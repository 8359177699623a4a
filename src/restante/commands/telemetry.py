"""Telemetry: the newest record of each miner, and the last few behind it, in a ring of bounded size.

    record ─▶ slot (samples taken so far, modulo the size of the ring) ─▶ overwrites the one of a round before

A record that is older than the newest is kept in the ring and is news to nobody: it neither replaces the newest nor is
it returned as fresh, which is what rules are evaluated on. One that is sent again takes the slot it has, if it is one
of the last: a collector that repeats a batch for want of an answer changes nothing. Foreign miners and absent ones are
the same error. Knows nothing of rules.
"""

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from restante.commands.queue import SITE_LOCK
from restante.commands.telemetry_records import RecordError, Sample
from restante.commands.wire import iso, iso_precise
from restante.core.errors import NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

# A record of the future would be the newest until the future comes: a collector's clock may be ahead by this much.
AHEAD_SECONDS_MAX = 300
SWEEP_ROWS = 1000
# How far behind a miner's newest record one that is sent again is looked for, beside twice what the batch has of it.
LOOKED_BACK = 16


class Stored(NamedTuple):
    """What became of the samples; `fresh` are those that were news, oldest first."""

    fresh: list[Sample]
    errors: list[RecordError]
    received_at: int


class LatestRecord(msgspec.Struct, frozen=True):
    miner_id: int
    site_id: int
    ts: str
    received_at: str
    record: msgspec.Raw


class PastRecord(msgspec.Struct, frozen=True):
    ts: str
    record: msgspec.Raw


class MinerTelemetry(msgspec.Struct, frozen=True):
    miner_id: int
    site_id: int
    latest: LatestRecord | None
    history: list[PastRecord]


class _Ring:
    """One miner's history while a batch goes into it."""

    __slots__ = ("newest", "newest_ts", "samples", "sent", "slot", "slots_by_time")

    def __init__(self, row: Row, sent: int) -> None:
        self.sent = sent
        self.newest_ts: int = -1 if row["ts"] is None else row["ts"]
        self.samples: int = row["samples"] or 0
        self.slot: int = row["slot"] or 0
        self.newest: Sample | None = None
        # Read only when a record comes that is behind the newest.
        self.slots_by_time: dict[int, int] | None = None

    def next_slot(self, keep: int) -> int:
        self.samples += 1
        return (self.samples - 1) % keep


def store(conn: Connection, site_id: int, samples: list[Sample], keep: int) -> Stored:
    """Keep the samples of the site's own miners, `keep` of each."""
    conn.lock(SITE_LOCK, site_id)
    stored = Stored([], [], conn.now_ms)
    rings = _rings(conn, site_id, samples)
    history = []
    for sample in sorted(samples, key=lambda sample: sample.ts):
        ring = rings.get(sample.miner_id)
        if ring is None:
            stored.errors.append(RecordError(sample.place, "miner_id: expected the id of a miner of the site"))
        elif sample.ts > conn.now_ms + AHEAD_SECONDS_MAX * 1000:
            stored.errors.append(RecordError(sample.place, "ts: expected a time that is not in the future"))
        else:
            if sample.ts >= ring.newest_ts:
                stored.fresh.append(sample)
            slot = _place(conn, ring, sample, keep)
            history.append({"slot": slot, "miner_id": sample.miner_id, "ts": sample.ts, "record": sample.text})
    conn.run_many(SQL.put_history, history)
    _put_rings(conn, rings)
    return stored


def latest_page(conn: Connection, site_id: int, window: Window) -> Page[LatestRecord]:
    """The newest records of the site's miners; those that never reported are not there."""
    rows = conn.all(SQL.latest_of_site, site_id=site_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "miner_id", _latest)


def of_miner(conn: Connection, miner_id: int, limit: int, keep: int) -> MinerTelemetry:
    row = conn.one(SQL.latest, miner_id=miner_id)
    if row is None:
        raise NotFound("there is no such miner")
    past = past_records(conn, miner_id, limit, keep)
    history = [PastRecord(iso_precise(ts), _raw(record)) for ts, record in past]
    return MinerTelemetry(miner_id, row["site_id"], None if row["ts"] is None else _latest(row), history)


def past_records(conn: Connection, miner_id: int, limit: int, keep: int) -> list[tuple[int, str]]:
    """When each of the miner's last records was made, and what it says, newest first."""
    rows = conn.all(SQL.history, miner_id=miner_id, limit=limit, keep=keep)
    return [(row["ts"], row["record"]) for row in rows]


def forget_beyond(conn: Connection, keep: int) -> int:
    """Remove what is left of larger rings, some rows at a time; how many."""
    return conn.run(SQL.forget_beyond, keep=keep, limit=SWEEP_ROWS)


def _rings(conn: Connection, site_id: int, samples: list[Sample]) -> dict[int, _Ring]:
    sent = Counter(sample.miner_id for sample in samples)
    rows = conn.all(SQL.places, site_id=site_id, miner_ids=msgspec.json.encode(sorted(sent)).decode())
    return {row["miner_id"]: _Ring(row, sent[row["miner_id"]]) for row in rows}


def _place(conn: Connection, ring: _Ring, sample: Sample, keep: int) -> int:
    """The slot of the ring that the sample goes into; the ring knows of it."""
    if sample.ts > ring.newest_ts:
        ring.slot = ring.next_slot(keep)
        ring.newest, ring.newest_ts = sample, sample.ts
        return ring.slot
    if sample.ts == ring.newest_ts and ring.slot < keep:
        ring.newest = sample
        return ring.slot
    if ring.slots_by_time is None:
        ring.slots_by_time = _slots_by_time(conn, ring, sample.miner_id, keep)
    known = ring.slots_by_time.get(sample.ts)
    if known is None:
        known = ring.slots_by_time[sample.ts] = ring.next_slot(keep)
    return known


def _slots_by_time(conn: Connection, ring: _Ring, miner_id: int, keep: int) -> dict[int, int]:
    looked = min(keep, ring.samples, LOOKED_BACK + 2 * ring.sent)
    rows = conn.all(SQL.slots_by_time, miner_id=miner_id, samples=ring.samples, keep=keep, looked=looked)
    return {row["ts"]: row["slot"] for row in rows}


def _put_rings(conn: Connection, rings: dict[int, _Ring]) -> None:
    newest: list[dict[str, Any]] = []
    only_grown: list[dict[str, Any]] = []
    for miner_id, ring in rings.items():
        if ring.newest is None:
            only_grown.append({"miner_id": miner_id, "samples": ring.samples})
        else:
            newest.append(_latest_row(miner_id, ring, ring.newest, conn.now_ms))
    conn.run_many(SQL.put_latest, newest)
    conn.run_many(SQL.put_samples, only_grown)


def _latest_row(miner_id: int, ring: _Ring, newest: Sample, now_ms: int) -> dict[str, Any]:
    return {
        "miner_id": miner_id,
        "ts": newest.ts,
        "received_at": now_ms,
        "samples": ring.samples,
        "slot": ring.slot,
        "record": newest.text,
    }


def _latest(row: Row) -> LatestRecord:
    ts, received_at = iso_precise(row["ts"]), iso(row["received_at"])
    return LatestRecord(row["miner_id"], row["site_id"], ts, received_at, _raw(row["record"]))


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
