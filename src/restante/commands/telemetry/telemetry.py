"""Telemetry storage: the newest record of each miner, and a ring buffer of its last records.

    record ─▶ slot (records stored so far, modulo the size of the ring) ─▶ overwrites the record of the previous round

A record that is older than the newest one goes into the ring only: it does not replace the newest record and is not
returned as fresh, and rules are evaluated on fresh records. A record that is sent again overwrites its own slot, if it
is one of the last records: a collector that repeats a batch because it got no response changes nothing. The records of
a miner that is not registered yet are kept under a key of their own until it is (`unknown_miners`); they are not fresh,
so rules are not evaluated on them. This module does not know about rules.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.commands.sites import unknown_miners
from restante.commands.sites.unknown_miners import Admission
from restante.commands.telemetry.telemetry_records import RecordError, Sample
from restante.core.errors import NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

# A record from the future would stay the newest until that time. A collector's clock may be ahead by this much.
AHEAD_SECONDS_MAX = 300
SWEEP_ROWS = 1000
# How many of a miner's last records are searched for a record that is sent again, in addition to twice the number of
# its records in the batch.
LOOKBACK_RECORDS = 16


@dataclass(frozen=True, slots=True)
class StoreResult:
    """`fresh`: the samples that were the newest of their registered miner, oldest first. `unknown_count`: how many
    samples of miners that are not registered were stored."""

    fresh: list[Sample]
    errors: list[RecordError]
    received_at: int
    unknown_count: int = 0


class LatestRecord(msgspec.Struct, frozen=True):
    miner_id: int
    site_id: int
    miner_known: bool
    ts: Timestamp
    received_at: Timestamp
    record: msgspec.Raw


class PastRecord(msgspec.Struct, frozen=True):
    ts: Timestamp
    record: msgspec.Raw


class MinerTelemetry(msgspec.Struct, frozen=True):
    miner_id: int
    site_id: int
    miner_known: bool
    latest: LatestRecord | None
    history: list[PastRecord]


class _MinerHistory:
    """The position in one miner's ring buffer while a batch is written into it. `key` is the miner's id in the
    database."""

    __slots__ = ("key", "newest", "newest_ts", "ring_size", "samples", "samples_in_batch", "slot", "slots_by_time")

    def __init__(self, row: Row, samples_in_batch: int, ring_size: int) -> None:
        self.key: int = row["key"]
        self.ring_size = ring_size
        self.samples_in_batch = samples_in_batch
        self.newest_ts: int = -1 if row["ts"] is None else row["ts"]
        self.samples: int = row["samples"] or 0
        self.slot: int = row["slot"] or 0
        self.newest: Sample | None = None
        # Read only if the batch has a record that is older than the newest one.
        self.slots_by_time: dict[int, int] | None = None

    @property
    def is_known(self) -> bool:
        return self.key > 0

    def next_slot(self) -> int:
        self.samples += 1
        return (self.samples - 1) % self.ring_size


def store(
    conn: Connection, site_id: int, samples: list[Sample], history_records: int, unknown_miners_max: int
) -> StoreResult:
    """Store the samples of the site's miners; each miner keeps its last `history_records`."""
    conn.lock(SITE_LOCK, site_id)
    errors = [
        RecordError(sample.index, "ts: expected a time that is not in the future")
        for sample in samples
        if _is_ahead(sample, conn.now_ms)
    ]
    samples = sorted((sample for sample in samples if not _is_ahead(sample, conn.now_ms)), key=lambda sample: sample.ts)
    counts = Counter(sample.miner_id for sample in samples)
    histories = _read_histories(conn, site_id, counts, history_records)
    admission = unknown_miners.admit(conn, site_id, counts.keys() - histories.keys(), unknown_miners_max)
    histories |= _read_unknown_histories(conn, admission, counts, history_records)
    fresh, rows, unknown_count = [], [], 0
    for sample in samples:
        history = histories.get(sample.miner_id)
        if history is None:
            errors.append(RecordError(sample.index, admission.refusals[sample.miner_id]))
            continue
        if not history.is_known:
            unknown_count += 1
        elif sample.ts >= history.newest_ts:
            fresh.append(sample)
        slot = _assign_slot(conn, history, sample)
        rows.append({"slot": slot, "miner_id": history.key, "ts": sample.ts, "record": sample.text})
    conn.run_many(SQL.put_history, rows)
    _write_latest(conn, histories.values())
    return StoreResult(fresh, errors, conn.now_ms, unknown_count)


def latest_page(
    conn: Connection, site_id: int, page: PageRequest, miner_known: bool | None = None
) -> Page[LatestRecord]:
    """A page of the newest records of the site's miners; miners that never reported are left out."""
    rows = conn.all(
        SQL.latest_of_site,
        site_id=site_id,
        miner_known=None if miner_known is None else int(miner_known),
        after=page.after,
        limit=page.limit + 1,
    )
    return page_of(rows, page, "miner_id", _latest)


def read_miner(
    conn: Connection,
    miner_id: int,
    limit: int,
    history_records: int,
    site_id: int | None = None,
    sites: AllowedIds = ALL_IDS,
) -> MinerTelemetry:
    """A registered miner's telemetry; with a site also that of a miner that is not registered there yet."""
    row = conn.one(SQL.latest, miner_id=miner_id)
    if site_id is not None and (row is None or row["site_id"] != site_id):
        row = conn.one(SQL.latest_unknown, site_id=site_id, miner_id=miner_id)
    if row is None or row["site_id"] not in sites:
        raise NotFound("there is no such miner")
    past = past_records(conn, row["key"], limit, history_records)
    history = [PastRecord(iso_precise(ts), _raw(record)) for ts, record in past]
    latest = None if row["ts"] is None else _latest(row)
    return MinerTelemetry(miner_id, row["site_id"], bool(row["miner_known"]), latest, history)


def past_records(conn: Connection, miner_id: int, limit: int, history_records: int) -> list[tuple[int, str]]:
    """Time and text of the miner's last records, newest first."""
    rows = conn.all(SQL.history, miner_id=miner_id, limit=limit, history_records=history_records)
    return [(row["ts"], row["record"]) for row in rows]


def recent_records(
    conn: Connection, miner_ids: Iterable[int], points: int, history_records: int
) -> dict[int, list[str]]:
    """The last records of each of these miners, oldest first: for small charts of many miners."""
    rows = conn.all(
        SQL.recent,
        miner_ids=_json_list(miner_ids),
        points=min(points, history_records),
        history_records=history_records,
    )
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["miner_id"], []).append(row["record"])
    return found


def delete_beyond(conn: Connection, history_records: int) -> int:
    """Delete some of the rows that a larger ring left behind; returns how many."""
    return conn.run(SQL.delete_beyond, history_records=history_records, limit=SWEEP_ROWS)


def _is_ahead(sample: Sample, now_ms: int) -> bool:
    return sample.ts > now_ms + AHEAD_SECONDS_MAX * 1000


def _read_histories(
    conn: Connection, site_id: int, counts: Counter[int], history_records: int
) -> dict[int, _MinerHistory]:
    rows = conn.all(SQL.ring_positions, site_id=site_id, miner_ids=_json_list(counts))
    return {row["key"]: _MinerHistory(row, counts[row["key"]], history_records) for row in rows}


def _read_unknown_histories(
    conn: Connection, admission: Admission, counts: Counter[int], history_records: int
) -> dict[int, _MinerHistory]:
    if not admission.keys:
        return {}
    ring_size = min(history_records, unknown_miners.HISTORY_RECORDS)
    unknown_ids = _json_list(-key for key in admission.keys.values())
    rows = conn.all(SQL.unknown_ring_positions, unknown_ids=unknown_ids)
    return {row["miner_id"]: _MinerHistory(row, counts[row["miner_id"]], ring_size) for row in rows}


def _json_list(ids: Iterable[int]) -> str:
    return msgspec.json.encode(sorted(ids)).decode()


def _assign_slot(conn: Connection, history: _MinerHistory, sample: Sample) -> int:
    """Choose the slot of the sample and advance the ring buffer."""
    if sample.ts > history.newest_ts:
        history.slot = history.next_slot()
        history.newest, history.newest_ts = sample, sample.ts
        return history.slot
    if sample.ts == history.newest_ts and history.slot < history.ring_size:
        history.newest = sample
        return history.slot
    if history.slots_by_time is None:
        history.slots_by_time = _slots_by_time(conn, history)
    slot = history.slots_by_time.get(sample.ts)
    if slot is None:
        slot = history.slots_by_time[sample.ts] = history.next_slot()
    return slot


def _slots_by_time(conn: Connection, history: _MinerHistory) -> dict[int, int]:
    rows = conn.all(
        SQL.slots_by_time,
        miner_id=history.key,
        samples=history.samples,
        history_records=history.ring_size,
        lookback=min(history.ring_size, history.samples, LOOKBACK_RECORDS + 2 * history.samples_in_batch),
    )
    return {row["ts"]: row["slot"] for row in rows}


def _write_latest(conn: Connection, histories: Iterable[_MinerHistory]) -> None:
    """Write each miner's newest record, or only its new record count."""
    newest: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    for history in histories:
        if history.newest is None:
            counts.append({"miner_id": history.key, "samples": history.samples})
        else:
            newest.append(_latest_row(history, history.newest, conn.now_ms))
    conn.run_many(SQL.put_latest, newest)
    conn.run_many(SQL.put_samples, counts)


def _latest_row(history: _MinerHistory, newest: Sample, now_ms: int) -> dict[str, Any]:
    return {
        "miner_id": history.key,
        "ts": newest.ts,
        "received_at": now_ms,
        "samples": history.samples,
        "slot": history.slot,
        "record": newest.text,
    }


def _latest(row: Row) -> LatestRecord:
    ts, received_at = iso_precise(row["ts"]), iso_precise(row["received_at"])
    known = bool(row["miner_known"])
    return LatestRecord(row["miner_id"], row["site_id"], known, ts, received_at, _raw(row["record"]))


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
