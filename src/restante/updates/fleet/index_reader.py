"""Reads one index of the fleet in its order, step by step, and checks the other conditions on each device.

    conditions ─▶ choose an index: one with few entries, else the first ─▶ steps of (key, id, matches)

The cost of a step depends on its size only. A place in an index can be written as text and read again, for the pages
of a list. Does not know what callers make of the devices.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.updates.fleet.conditions import ALL_DEVICES, Condition, Index, Parameters

# An index with fewer entries than this is read whole if necessary.
FEW = 500
STEP_MIN = 128
AFTER_CHARACTERS_MAX = 2048


# The tables that conditions name, by alias: how each engine looks up the row of a picked device.
_JOINS = {
    "d": "JOIN user_devices AS d ON d.id = picked.id",
    "p": "LEFT JOIN device_presence AS p ON p.device_id = picked.id",
    "c": "LEFT JOIN device_install_configs AS c ON c.user_device_id = picked.id",
}
# PostgreSQL plans without knowing the size of a step, and would join whole tables: a limit makes it look up each row.
_POSTGRES_JOINS = {
    "d": "CROSS JOIN LATERAL (SELECT * FROM user_devices WHERE id = picked.id LIMIT 1) AS d",
    "p": "LEFT JOIN LATERAL (SELECT * FROM device_presence WHERE device_id = picked.id LIMIT 1) AS p ON TRUE",
    "c": "LEFT JOIN LATERAL (SELECT state, fetched_version FROM device_install_configs"
    " WHERE user_device_id = picked.id LIMIT 1) AS c ON TRUE",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an index: after the device with this id, which has this key."""

    index: str
    key: int | str | None
    device_id: int


@dataclass(frozen=True, slots=True)
class Examined:
    """One device that an index yielded, and whether it meets the other conditions."""

    key: int | str | None
    device_id: int
    is_match: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """How many devices have the same status, state of the install config, and are overdue alike."""

    is_active: bool
    config_state: str | None
    is_overdue: bool
    number: int


@dataclass(frozen=True, slots=True)
class IndexReader:
    """`rest`: the conditions to check. `is_index_enough`: they hold for every device of the index, but for one that was
    changed at the same moment."""

    index: Index
    rest: tuple[Condition, ...]
    is_index_enough: bool = False

    def read(self, conn: Connection, place: Place | None, limit: int) -> list[Examined]:
        """The next devices of the index, at most `limit`."""
        query, parameters = self._step_query(place), self._parameters(place)
        found = [
            Examined(key, device_id, bool(is_match))
            for stream in self.index.streams
            for device_id, key, is_match in conn.values(query, **parameters, **stream, step=limit)
        ]
        if len(self.index.streams) > 1:
            found.sort(key=lambda each: each.device_id)
        return found[:limit]

    def step_size(self, missing: int, budget: int) -> int:
        """How many devices to examine next if `missing` are still wanted."""
        return min(missing if not self.rest else max(2 * missing, STEP_MIN), budget)

    def count_up_to(self, conn: Connection, most: int) -> int:
        """How many entries the index has, counted up to `most`. Ignores the other conditions."""
        return min(most, sum(_count_stream(conn, self.index, stream, most) for stream in self.index.streams))

    def count_kinds(
        self, conn: Connection, stream: Parameters, place: Place | None, step: int, now_ms: int
    ) -> tuple[list[Kind], Place | None]:
        """The kinds of the next devices of a stream that match, and the place of the last one; None at its end."""
        parameters = self._parameters(place) | stream
        picked = _picked_text(self.index, has_place=place is not None)
        last = conn.values(Query("fleet_last", f"{picked} OFFSET :skipped"), **parameters, step=1, skipped=step - 1)
        rows = conn.values(self._kinds_query(picked), **parameters, step=step, counted_at=now_ms)
        kinds = [Kind(bool(active), state, bool(overdue), number) for active, state, overdue, number in rows]
        return kinds, Place(self.index.name, last[0][1], last[0][0]) if last else None

    def _kinds_query(self, picked: str) -> Query:
        rest = " AND ".join(f"({condition.text})" for condition in self.rest) or "TRUE"
        is_overdue = "COALESCE(p.overdue_at < :counted_at AND d.revoked_at IS NULL, FALSE)"
        # The columns are computed first: PostgreSQL does not group by an expression with parameters.
        before = (
            f"WITH picked AS ({picked}) "  # noqa: S608 — the names are those of conditions.py
            "SELECT is_active, state, is_overdue, COUNT(*) AS number FROM (SELECT d.revoked_at IS NULL AS is_active, "
            f"c.state, {is_overdue} AS is_overdue FROM picked "
        )
        after = f" WHERE {rest}) AS found GROUP BY is_active, state, is_overdue"
        plain, postgres = (" ".join(joins[alias] for alias in "dpc") for joins in (_JOINS, _POSTGRES_JOINS))
        return Query("fleet_kinds", before + plain + after, (("postgres", before + postgres + after),))

    def _parameters(self, place: Place | None) -> Parameters:
        parameters: Parameters = {}
        for condition in self.rest:
            parameters |= condition.parameters
        if place is not None:
            parameters["after_id"] = place.device_id
            if self.index.key is not None:
                parameters["after_key"] = place.key
        of_streams = {name for stream in self.index.streams for name in stream}
        return {name: value for name, value in parameters.items() if name not in of_streams}

    def _step_query(self, place: Place | None) -> Query:
        picked = _picked_text(self.index, has_place=place is not None)
        if not self.rest:
            return Query("fleet_step", f"SELECT id, sort_key, 1 AS is_match FROM ({picked}) AS picked")  # noqa: S608
        rest = " AND ".join(f"({condition.text})" for condition in self.rest)
        examined = (
            f"WITH picked AS ({picked}) "  # noqa: S608 — the names are those of conditions.py
            f"SELECT picked.id, picked.sort_key, CASE WHEN {rest} THEN 1 ELSE 0 END AS is_match FROM picked "
        )
        order = f" ORDER BY {_order(self.index, 'picked.sort_key', 'picked.id')}"
        aliases = ["d", *(alias for alias in ("p", "c") if f"{alias}." in rest)]
        plain, postgres = (" ".join(joins[alias] for alias in aliases) for joins in (_JOINS, _POSTGRES_JOINS))
        return Query("fleet_step", examined + plain + order, (("postgres", examined + postgres + order),))


def choose(conn: Connection, conditions: Sequence[Condition]) -> IndexReader:
    """The reader with the index that has few entries; if none has, with the first; all devices without conditions."""
    indexed = [condition for condition in conditions if condition.index is not None]
    few = first_with_few(conn, conditions) if len(indexed) > 1 else None
    return reader_of(few or next(iter(indexed), None), conditions)


def first_with_few(conn: Connection, conditions: Sequence[Condition]) -> Condition | None:
    for condition in conditions:
        if condition.index is not None and IndexReader(condition.index, ()).count_up_to(conn, FEW) < FEW:
            return condition
    return None


def reader_of(chosen: Condition | None, conditions: Sequence[Condition]) -> IndexReader:
    """The reader of the chosen condition's index, which checks all other conditions; None: of all devices."""
    if chosen is None or chosen.index is None:
        return IndexReader(ALL_DEVICES, tuple(conditions), not conditions)
    rest = [condition for condition in conditions if condition is not chosen or not condition.is_exact_index]
    return IndexReader(chosen.index, tuple(rest), all(condition is chosen for condition in rest))


def reader_at(conditions: Sequence[Condition], place: Place, field: str) -> IndexReader:
    """The reader of the index that the place names; BadInput if the conditions have no such index."""
    if place.index == ALL_DEVICES.name:
        return reader_of(None, conditions)
    for condition in conditions:
        index = condition.index
        if index is not None and index.name == place.index and index.accepts(place.key):
            return reader_of(condition, conditions)
    raise BadInput(field, "the `next` of a page with the same filter")


def place_text(place: Place) -> str:
    encoded = msgspec.json.encode([place.index, place.key, place.device_id])
    return urlsafe_b64encode(encoded).decode().rstrip("=")


def parse_place(text: str, field: str) -> Place:
    try:
        if len(text) > AFTER_CHARACTERS_MAX:
            raise ValueError("too long")
        decoded = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        index, key, device_id = msgspec.json.decode(decoded, type=tuple[str, int | str | None, int])
        if not 0 <= device_id <= INT64_MAX or (isinstance(key, int) and abs(key) > INT64_MAX):
            raise ValueError("out of range")
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise BadInput(field, "the `next` of the previous page") from None
    return Place(index, key, device_id)


def _picked_text(index: Index, *, has_place: bool) -> str:
    key = index.key or "NULL"
    after = ""
    if has_place and index.key is None:
        after = f" AND {index.id_column} > :after_id"
    elif has_place:
        sign = "<" if index.is_descending else ">"
        after = f" AND ({index.key}, {index.id_column}) {sign} (:after_key, :after_id)"
    order = _order(index, index.key or "", index.id_column)
    return (
        f"SELECT {index.id_column} AS id, {key} AS sort_key FROM {index.table} "  # noqa: S608 — names of conditions.py
        f"WHERE {index.where}{after} ORDER BY {order} LIMIT :step"
    )


def _order(index: Index, key: str, device_id: str) -> str:
    if index.key is None:
        return device_id
    return f"{key} DESC, {device_id} DESC" if index.is_descending else f"{key}, {device_id}"


def _count_stream(conn: Connection, index: Index, stream: Parameters, most: int) -> int:
    text = (
        f"SELECT COUNT(*) AS counted FROM "  # noqa: S608 — the names are those of conditions.py
        f"(SELECT 1 FROM {index.table} WHERE {index.where} LIMIT :most) AS listed"
    )
    ((counted,),) = conn.values(Query("fleet_count", text), **stream, most=most)
    return int(counted)
