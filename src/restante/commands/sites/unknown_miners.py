"""Miners that collectors report before an operator has registered them.

    report of an unregistered miner ─▶ admitted, within the site's bound ─▶ stored as unknown
    the miner is registered at the site ─▶ its safety events and its telemetry become those of the miner

A late inventory must not lose a thermal shutdown, so such reports are kept. A collector must not fill the disk with
invented miner ids, so a site has at most `miners_max` unknown miners, and EVENTS_PER_MINER times as many safety events
of them. The id of a miner of another site is refused: that miner is known, and not here.

Invariant: reports are admitted and miners are registered under the lock of the site, so no report stays unknown after
its miner was registered.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

EVENTS_PER_MINER = 10
# The largest id of a miner: every JSON parser reads integers up to it exactly.
ID_MAX = 2**53
# The telemetry of an unknown miner has a smaller ring buffer.
HISTORY_RECORDS = 16
_SLOTS = msgspec.json.encode(list(range(HISTORY_RECORDS))).decode()

NOT_OF_SITE = "miner_id: expected the id of a miner of the site"


@dataclass(frozen=True, slots=True)
class Admission:
    """`keys`: the key of each admitted miner's telemetry. `refusals`: the reason for each other miner."""

    keys: dict[int, int] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)


def admit(conn: Connection, site_id: int, miner_ids: Collection[int], miners_max: int) -> Admission:
    """Admit reports of miners that are not registered at the site. The caller holds the lock of the site."""
    admission = Admission()
    if not miner_ids:
        return admission
    listed = msgspec.json.encode(sorted(miner_ids)).decode()
    # No operator can register such an id: it is refused as one of another site.
    admission.refusals.update({miner_id: NOT_OF_SITE for miner_id in miner_ids if miner_id > ID_MAX})
    for row in conn.all(SQL.registered, miner_ids=listed):
        admission.refusals[row["id"]] = NOT_OF_SITE
    for row in conn.all(SQL.unknown, site_id=site_id, miner_ids=listed):
        if row["miner_id"] not in admission.refusals:
            admission.keys[row["miner_id"]] = -row["id"]
    new = sorted(set(miner_ids) - admission.keys.keys() - admission.refusals.keys())
    room = miners_max - _count(conn, site_id) if new else 0
    for place, miner_id in enumerate(new):
        if place < room:
            admission.keys[miner_id] = -_add(conn, site_id, miner_id)
        else:
            admission.refusals[miner_id] = (
                f"miner_id: expected a registered miner, because the site already has {miners_max} others"
            )
    return admission


def room_for_events(conn: Connection, site_id: int, miners_max: int) -> int:
    """How many more safety events of unknown miners the site may have."""
    row = conn.one(SQL.count_events, site_id=site_id)
    return EVENTS_PER_MINER * miners_max - (0 if row is None else row["events"])


def link(conn: Connection, site_id: int, miner_id: int) -> int:
    """Give a miner that was just registered the reports that came before; returns its number of safety events."""
    conn.lock(SITE_LOCK, site_id)
    events = conn.run(SQL.link_events, site_id=site_id, miner_id=miner_id)
    row = conn.one(SQL.delete_unknown, site_id=site_id, miner_id=miner_id)
    if row is not None:
        conn.run(SQL.link_latest, miner_id=miner_id, key=-row["id"])
        conn.run(SQL.link_history, miner_id=miner_id, key=-row["id"], slots=_SLOTS)
    return events


def _count(conn: Connection, site_id: int) -> int:
    row = conn.one(SQL.count_unknown, site_id=site_id)
    return 0 if row is None else int(row["miners"])


def _add(conn: Connection, site_id: int, miner_id: int) -> int:
    row = conn.one(SQL.insert_unknown, site_id=site_id, miner_id=miner_id, now_ms=conn.now_ms)
    assert row is not None  # noqa: S101 — RETURNING yields the row
    return int(row["id"])
