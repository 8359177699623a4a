"""How many devices a filter selects, and how many of these have each status and state: exact, counted in steps.

    no filter: one index after another, without a look at the devices
    a filter:  its index in steps ──▶ devices of a step that match ──▶ grouped by status, state of the config, overdue

See `restante.database.lists.long_counts` for who runs the steps, and how long a result is kept.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.fleet import groups
from restante.updates.fleet.conditions import STATES, conditions_of
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.fleet.index_reader import IndexReader, Kind, Place, choose

# How many devices a step and a count examine at most.
COUNT_STEP = 10_000
COUNT_MAX = 10_000_000

COUNTED_STATUSES = ("active", "revoked")
COUNTED_CONFIG_STATES = ("behind", "current", "applied", "failed")


class Count(msgspec.Struct, frozen=True):
    """How many devices match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class Counts(msgspec.Struct, frozen=True):
    """How many devices match the filter, and how many of these have each status and each state of their config; and
    when they were counted."""

    total: Count
    status: dict[str, Count]
    config: dict[str, Count]
    overdue: Count
    counted_at: Timestamp


async def counted(database: Database, wanted: DeviceFilter, users: AllowedIds) -> Counts:
    # The console counts under the same key.
    return await database.count((wanted, users), lambda: FleetCounting(wanted, users))


class FleetCounting:
    def __init__(self, wanted: DeviceFilter, users: AllowedIds = ALL_IDS) -> None:
        self._wanted, self._users = wanted, users
        self._steps: Iterator[None] | None = None
        self._conn: Connection | None = None
        self._counter: Counter[str] = Counter()
        self._is_complete = False
        self._now_ms = 0

    def step(self, conn: Connection) -> bool:
        if self._steps is None:
            self._now_ms = conn.now_ms
            conditions = conditions_of(groups.resolve(conn, self._wanted, self._users), self._users, self._now_ms)
            reader = choose(conn, conditions)
            self._steps = self._by_step(reader) if conditions else self._by_index(reader)
        self._conn = conn
        try:
            next(self._steps)
        except StopIteration:
            return False
        finally:
            self._conn = None
        return True

    def result(self) -> Counts:
        def count(name: str) -> Count:
            return Count(self._counter[name], self._is_complete)

        return Counts(
            count("total"),
            {status: count(status) for status in COUNTED_STATUSES},
            {state: count(f"config {state}") for state in COUNTED_CONFIG_STATES},
            count("overdue"),
            iso_precise(self._now_ms),
        )

    def _by_index(self, everything: IndexReader) -> Iterator[None]:
        """All devices: each number is the length of an index."""
        conn = self._open
        total = everything.count_up_to(conn, COUNT_MAX)
        self._counter["total"] = total
        fields: dict[str, dict[str, Any]] = {
            **{status: {"status": status} for status in COUNTED_STATUSES},
            **{f"config {state}": {"config_version": state} for state in COUNTED_CONFIG_STATES},
            "overdue": {"overdue": True},
        }
        # A small fleet is counted in one step.
        if total > COUNT_STEP:
            yield
        for name, each in fields.items():
            [condition] = conditions_of([DeviceFilter(**each)], ALL_IDS, self._now_ms)
            self._counter[name] = choose(self._open, [condition]).count_up_to(self._open, COUNT_MAX)
            if total > COUNT_STEP:
                yield
        self._is_complete = total < COUNT_MAX

    def _by_step(self, reader: IndexReader) -> Iterator[None]:
        examined = 0
        for stream in reader.index.streams:
            place: Place | None = None
            while True:
                kinds, place = reader.count_kinds(self._open, stream, place, COUNT_STEP, self._now_ms)
                for kind in kinds:
                    self._add(kind)
                if place is None:
                    break
                examined += COUNT_STEP
                if examined >= COUNT_MAX:
                    return
                yield
        self._is_complete = True

    def _add(self, kind: Kind) -> None:
        self._counter["total"] += kind.number
        self._counter["active" if kind.is_active else "revoked"] += kind.number
        self._counter["overdue"] += kind.number if kind.is_overdue else 0
        for state in COUNTED_CONFIG_STATES:
            self._counter[f"config {state}"] += kind.number if kind.config_state in STATES[state] else 0

    @property
    def _open(self) -> Connection:
        """The connection of this step."""
        if self._conn is None:
            raise RuntimeError("a step runs inside a read")
        return self._conn
