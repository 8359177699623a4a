"""Pages and counts of filtered lists, on the table of safety events: each row once, and few rows examined."""

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import (
    FilteredList,
    ItemCount,
    StateCounting,
    among,
    begins,
    between,
    equal,
    is_null,
)
from restante.database.lists.long_counts import count_now
from restante.database.paging import PageRequest
from restante.database.queries import Query
from tests.conftest import ManualClock

_ADD = Query(
    "add",
    "INSERT INTO safety_events (id, site_id, device_id, miner_id, action, reason, ts, received_at, miner_known)"
    " VALUES (:id, :site_id, 1, :id, :action, :reason, :ts, 0, 1)",
)
ROWS = 60
STATES = ("FAN_FAILURE", "POWER_LIMIT", "EMERGENCY_STOP")


@pytest.fixture
def rows(database: Database, clock: ManualClock) -> Database:
    """Sixty rows of two sites. Every tenth is a fan failure; two have a reason that begins with `ab`."""

    def add(conn: Connection) -> None:
        for number in range(1, ROWS + 1):
            conn.run(
                _ADD,
                id=number,
                site_id=number % 2,
                action="FAN_FAILURE" if number % 10 == 0 else "POWER_LIMIT",
                reason="ab%c" if number in (7, 8) else "Ab",
                ts=number,
            )

    database.write_now(add)
    return database


def pages(database: Database, wanted: FilteredList, limit: int, scan: int) -> list[list[int]]:
    found, after = [], 0
    while True:
        page = database.read_now(
            filtered_list.read, wanted, PageRequest(limit, after), lambda row: int(row["id"]), scan=scan
        )
        found.append(page.items)
        if page.next is None:
            return found
        assert page.next != after
        after = page.next


@pytest.mark.parametrize("is_descending", [True, False])
def test_every_matching_row_is_on_one_page(rows: Database, is_descending: bool) -> None:
    wanted = FilteredList("*", "safety_events", is_descending=is_descending, rest=equal("action", "FAN_FAILURE"))
    expected = list(range(10, ROWS + 1, 10))
    for scan in (1, 3, 7, 10, 59, 60, 61):
        for limit in (1, 2, 100):
            found = pages(rows, wanted, limit, scan)
            assert [each for page in found for each in page] == (expected[::-1] if is_descending else expected)
            assert all(len(page) <= limit for page in found)


def test_page_that_examined_enough_is_empty_and_names_the_next(rows: Database) -> None:
    wanted = FilteredList("*", "safety_events", rest=equal("reason", "nothing"))
    assert pages(rows, wanted, 10, 20) == [[], [], []]


@pytest.mark.parametrize("scan", [4, 100])
def test_indexed_condition_bounds_what_is_examined(rows: Database, scan: int) -> None:
    wanted = FilteredList("*", "safety_events", indexed=equal("site_id", 1), rest=between("ts", 11, 16))
    assert [each for page in pages(rows, wanted, 2, scan) for each in page] == [15, 13, 11]


def test_conditions(rows: Database) -> None:
    def ids(*rest: filtered_list.Condition) -> list[int]:
        wanted = FilteredList("*", "safety_events", is_descending=False, rest=rest)
        return [each for page in pages(rows, wanted, 100, 100) for each in page]

    assert ids(*begins("reason", "ab%")) == [7, 8]
    assert ids(*begins("reason", "%")) == []
    assert ids(*among("site_id", "[1]"), *between("id", None, 4)) == [1, 3]
    assert ids(*is_null("temp_max", True), *between("id", 59, None)) == [59, 60]
    assert ids(*is_null("temp_max", False)) == []
    assert len(ids(*equal("action", None), *begins("reason", None), *among("site_id", None))) == ROWS


def test_key_with_an_offset_is_paged_by_the_id_of_the_row(rows: Database) -> None:
    wanted = FilteredList(
        "*", "(SELECT *, id + 1000 AS place FROM safety_events) AS s", "place", offset=1000, rest=equal("site_id", 0)
    )
    found = pages(rows, wanted, 4, 5)
    assert [each for page in found for each in page] == list(range(60, 0, -2))


@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.parametrize("rest", [(), equal("site_id", 0)])
def test_list_between_two_keys(rows: Database, is_descending: bool, rest: tuple[filtered_list.Condition, ...]) -> None:
    wanted = FilteredList("*", "safety_events", is_descending=is_descending, rest=rest, above=20, below=31)
    expected = [number for number in range(21, 31) if not rest or number % 2 == 0]
    for scan in (1, 3, 100):
        found = [each for page in pages(rows, wanted, 3, scan) for each in page]
        assert found == (expected[::-1] if is_descending else expected)
    for after in (1, 25, 59, 2**63 - 1):
        page = rows.read_now(filtered_list.read, wanted, PageRequest(100, after), lambda row: int(row["id"]))
        assert set(page.items) <= set(expected)
    counted = rows.read_now(count_now, StateCounting(lambda _conn: wanted, "action", STATES))
    assert counted.total == ItemCount(len(expected), True)


@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.parametrize("step", [1, 7, 30, 1000])
def test_counts_are_exact_in_steps_of_any_size(
    rows: Database, monkeypatch: pytest.MonkeyPatch, step: int, is_descending: bool
) -> None:
    monkeypatch.setattr(filtered_list, "COUNT_STEP", step)
    wanted = FilteredList("*", "safety_events", rest=between("ts", 31, None), is_descending=is_descending)
    counted = rows.read_now(count_now, StateCounting(lambda _conn: wanted, "action", STATES))
    assert counted.total == ItemCount(30, True)
    assert [counted.states[state].value for state in STATES] == [3, 27, 0]


def test_counts_end_at_a_number_of_rows(rows: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_list, "COUNT_STEP", 10)
    monkeypatch.setattr(filtered_list, "COUNT_MAX", 20)
    wanted = FilteredList("*", "safety_events", rest=between("ts", 31, None))
    counted = rows.read_now(count_now, StateCounting(lambda _conn: wanted, "action", STATES))
    assert counted.total == ItemCount(20, False)
    assert counted.states["FAN_FAILURE"] == ItemCount(2, False)
