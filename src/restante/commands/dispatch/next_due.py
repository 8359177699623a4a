"""The stored next due time of each site: before it no command of the site is due, so claims need not scan for one.

    due: a command expires · a lease runs out · a back-off or deferral ends

The stored time is a lower bound. It may be too early: an ACK ends a lease but leaves the bound. Once it has passed, a
claim scans the site (`settlement`) and stores the time it finds, about once per lease time.

Invariants: a transaction that gives a command an earlier due time lowers the bound, while it holds the site's lock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# By site. None: nothing becomes due unless the queue changes.
NextDueTimes = dict[int, int | None]

_encode = msgspec.json.Encoder().encode


def prefetch_next_due(conn: Connection, sites: Sequence[int]) -> Callable[[], NextDueTimes]:
    """Start to read the stored times. The returned function yields them, without sites that have none."""
    rows = conn.prefetch(SQL.next_due, sites=_encode(sites).decode())
    return lambda: dict(rows())


def is_before_next_due(known: NextDueTimes, site_id: int, now_ms: int) -> bool:
    if site_id not in known:
        return False
    next_due_ms = known[site_id]
    return next_due_ms is None or next_due_ms > now_ms


def store_next_due(conn: Connection, known: NextDueTimes, found: Mapping[int, int | None]) -> None:
    """Store the times that differ from the known ones. A site that never had a command has no row and gets none, so a
    poll there writes nothing."""
    changed = [(site_id, next_due_ms) for site_id, next_due_ms in found.items() if known.get(site_id) != next_due_ms]
    conn.run_rows(SQL.store_next_due, changed)


def lower_next_due(conn: Connection, due_times: Iterable[tuple[int, int]]) -> None:
    """Make each site's stored time no later than the given one."""
    conn.run_rows(SQL.lower_next_due, [(due_ms, site_id) for site_id, due_ms in due_times])
