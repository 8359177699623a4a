"""Filtered lists over large tables: pages and counts whose cost does not depend on the size of the table.

    index: site_id = 7, by id ──▶ the next 2,000 ids ──▶ rows among them that meet the other conditions ──▶ page

A list is read in the order of an integer key, from an index that begins with the columns of the `indexed` conditions. A
page examines a bounded number of rows of that index. If the other conditions refuse most of them, the page has fewer
items than requested, even none, and still names the next one.

Conditions are texts of the caller's own SQL; values reach the database as parameters only. Does not know what the rows
mean.

Invariant: a row whose columns do not change while pages are read is on exactly one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import PAGE_BYTES_MAX, Page, PageRequest, read_page
from restante.database.queries import Query

T = TypeVar("T")

# How many rows a page, a step of a count, and a count examine at most.
PAGE_SCAN = 2000
COUNT_STEP = 20_000
COUNT_MAX = 10_000_000


class ItemCount(msgspec.Struct, frozen=True):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class StateCounts(msgspec.Struct, frozen=True):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, ItemCount]
    counted_at: Timestamp


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a row, and the values of its parameters."""

    text: str
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilteredList:
    """`source`: the FROM clause. `parameters`: the values of its parameters. `key`: the column that orders the list.
    `above`, `below`: the keys of the list lie between these two, which are no keys of it. `indexed`: conditions that an
    index with the key behind them serves; without one, the key's own index is read. `offset`: how much the key is
    greater than the `id` of a row, by which pages are named. `index_source`: the table of that index alone, if `source`
    joins others.

    A limit of the key belongs into `above` and `below`, not into a condition: of two limits on the same side SQLite
    seeks one and compares each row with the other, so it reads all rows between them."""

    columns: str
    source: str
    key: str = "id"
    is_descending: bool = True
    offset: int = 0
    indexed: tuple[Condition, ...] = ()
    rest: tuple[Condition, ...] = ()
    index_source: str | None = None
    above: int | None = None
    below: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


def equal(column: str, value: object, name: str | None = None) -> tuple[Condition, ...]:
    """The condition that the column has this value; none if the value is None, which means any."""
    name = name or column.rpartition(".")[2]
    return () if value is None else (Condition(f"{column} = :{name}", {name: value}),)


def between(column: str, since: int | None, until: int | None) -> tuple[Condition, ...]:
    """`since` <= the column < `until`; None means any."""
    name = column.rpartition(".")[2]
    after = () if since is None else (Condition(f"{column} >= :{name}_since", {f"{name}_since": since}),)
    before = () if until is None else (Condition(f"{column} < :{name}_until", {f"{name}_until": until}),)
    return (*after, *before)


def begins(column: str, prefix: str | None) -> tuple[Condition, ...]:
    """The column begins with this text, in its own case; None means any."""
    if prefix is None:
        return ()
    name = column.rpartition(".")[2] + "_prefix"
    text = f"SUBSTR({column}, 1, LENGTH(CAST(:{name} AS TEXT))) = CAST(:{name} AS TEXT)"
    return (Condition(text, {name: prefix}),)


def is_null(column: str, wanted: bool | None) -> tuple[Condition, ...]:
    """The column is empty, or is not; None means any."""
    return () if wanted is None else (Condition(f"{column} IS {'' if wanted else 'NOT '}NULL"),)


def among(column: str, ids: str | None) -> tuple[Condition, ...]:
    """The column is one of these ids, a JSON list; None means any."""
    name = column.rpartition(".")[2] + "_list"
    text = f"{column} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608
    return () if ids is None else (Condition(text, {name: ids}),)


def read(
    conn: Connection,
    wanted: FilteredList,
    page: PageRequest,
    view: Callable[[Row], T],
    bytes_max: int = PAGE_BYTES_MAX,
    scan: int = PAGE_SCAN,
) -> Page[T]:
    """A page of the list. Its `next` may come after rows that do not match."""
    start = page.after or (INT64_MAX if wanted.is_descending else 0)
    end = _end(conn, wanted, start, scan) if wanted.rest else None
    query = page_query(wanted, has_end=end is not None)
    parameters = _parameters(wanted)

    def step(after: int, limit: int) -> Sequence[Row]:
        return conn.all(query, **parameters, **_range(wanted, after or start, end), limit=limit)

    found = read_page(step, PageRequest(page.limit, start), "id", view, bytes_max)
    if found.next is None and end is not None:
        # The row at the end was not examined: the next page begins with it.
        return Page(found.items, end + 1 if wanted.is_descending else end - 1)
    return found


class StateCounting:
    """Counts the rows of a list by their state, an expression that is one of `states`, in steps."""

    def __init__(self, make: Callable[[Connection], FilteredList], state: str, states: Sequence[str]) -> None:
        self._make = make
        self._state = state
        self._counts = dict.fromkeys(states, 0)
        self._list: FilteredList | None = None
        self._start = 0
        self._examined_max = 0
        self._is_complete = False
        self._now_ms = 0

    def step(self, conn: Connection) -> bool:
        if self._list is None:
            self._list = self._make(conn)
            self._start = INT64_MAX if self._list.is_descending else 0
        wanted, self._now_ms = self._list, conn.now_ms
        end = _end(conn, wanted, self._start, COUNT_STEP)
        query = count_query(wanted, self._state, has_end=end is not None)
        for row in conn.all(query, **_parameters(wanted), **_range(wanted, self._start, end)):
            self._counts[row["state"]] = self._counts.get(row["state"], 0) + row["count"]
        self._examined_max += COUNT_STEP
        if end is None:
            self._is_complete = True
            return False
        # The row at the end was not examined: the next step begins with it.
        self._start = end + 1 if wanted.is_descending else end - 1
        return self._examined_max < COUNT_MAX

    def result(self) -> StateCounts:
        # A copy: a step may add to it at the same time.
        found = dict(self._counts)
        counts = {state: ItemCount(number, self._is_complete) for state, number in found.items()}
        total = ItemCount(sum(found.values()), self._is_complete)
        return StateCounts(total, counts, iso_precise(self._now_ms))


def page_query(wanted: FilteredList, *, has_end: bool) -> Query:
    order = f"{wanted.key} {'DESC' if wanted.is_descending else 'ASC'}"
    where = _where(wanted, (*wanted.indexed, *wanted.rest), has_end=has_end)
    text = f"SELECT {wanted.columns} FROM {wanted.source} WHERE {where} ORDER BY {order} LIMIT :limit"  # noqa: S608 — the caller's own SQL
    return Query("filtered_page", text)


def count_query(wanted: FilteredList, state: str, *, has_end: bool) -> Query:
    where = _where(wanted, (*wanted.indexed, *wanted.rest), has_end=has_end)
    # The states are computed first, because PostgreSQL does not group by the name of an expression with parameters.
    states = f"SELECT {state} AS state FROM {wanted.source} WHERE {where}"  # noqa: S608
    return Query("filtered_count", f"SELECT state, COUNT(*) AS count FROM ({states}) AS counted GROUP BY state")  # noqa: S608


def end_query(wanted: FilteredList) -> Query:
    order = f"{wanted.key} {'DESC' if wanted.is_descending else 'ASC'}"
    where = _where(wanted, wanted.indexed, has_end=False)
    source = wanted.index_source or wanted.source
    text = f"SELECT {wanted.key} AS id FROM {source} WHERE {where} ORDER BY {order} LIMIT 1 OFFSET :scan"  # noqa: S608
    return Query("filtered_end", text)


def _end(conn: Connection, wanted: FilteredList, start: int, scan: int) -> int | None:
    """The key of the first row that is not examined any more; None if there are fewer rows."""
    parameters = {name: value for condition in wanted.indexed for name, value in condition.parameters.items()}
    row = conn.one(end_query(wanted), **parameters, **_range(wanted, start, None), scan=scan)
    return None if row is None else int(row["id"]) - wanted.offset


def _range(wanted: FilteredList, start: int, end: int | None) -> dict[str, int]:
    """The keys between which rows are read. The start may be any number of a request: it does not leave the list."""
    key = min(start + wanted.offset, INT64_MAX)
    if wanted.is_descending:
        found, limit = {"start": key if wanted.below is None else min(key, wanted.below)}, wanted.above
    else:
        found, limit = {"start": key if wanted.above is None else max(key, wanted.above)}, wanted.below
    last = limit if end is None else end + wanted.offset
    return found if last is None else found | {"end": last}


def _parameters(wanted: FilteredList) -> dict[str, Any]:
    conditions = (*wanted.indexed, *wanted.rest)
    return wanted.parameters | {name: value for each in conditions for name, value in each.parameters.items()}


def _where(wanted: FilteredList, conditions: Sequence[Condition], *, has_end: bool) -> str:
    begin, end = ("<", ">") if wanted.is_descending else (">", "<")
    has_limit = (wanted.above if wanted.is_descending else wanted.below) is not None
    texts = [f"{wanted.key} {begin} :start", *([f"{wanted.key} {end} :end"] if has_end or has_limit else [])]
    return " AND ".join([*texts, *(f"({condition.text})" for condition in conditions)])
