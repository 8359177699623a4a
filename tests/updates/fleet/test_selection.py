"""Which devices a filter selects, in pages and ids."""

from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.lists.long_counts import count_now
from restante.identity.grants import AllowedIds
from restante.updates.devices import devices, notifications
from restante.updates.fleet import index_reader, selection
from restante.updates.fleet.device_filter import parse_object
from restante.updates.fleet.fleet_counts import Count, FleetCounting
from tests.conftest import START_MS, ManualClock
from tests.updates.fleet.fleet_fixture import DescribedFleet

HOUR_MS = 3_600_000


def test_each_field_selects_its_devices(fleet: DescribedFleet, database: Database) -> None:
    pilot = fleet.add("berlin-1", "pilot", "site=berlin", platform="linux")
    other = fleet.add("berlin-2", "site=berlin", platform="windows")
    foreign = fleet.add("Munich", user_id=fleet.other_id)
    database.write_now(notifications.report, pilot, "1.2.0", "[]")
    database.write_now(devices.revoke, other)
    assert fleet.ids() == [pilot, other, foreign]
    assert fleet.ids(name="berlin") == [pilot, other]
    assert fleet.ids(name="munich") == []
    assert fleet.ids(tag="site=berlin") == [pilot, other]
    assert fleet.ids(tag="site=berlin,pilot") == [pilot]
    assert fleet.ids(platform="windows") == [other]
    assert fleet.ids(agent_version="1.2.0") == [pilot]
    assert fleet.ids(status="active") == [pilot, foreign]
    assert fleet.ids(status="revoked") == [other]
    assert fleet.ids(user_id=fleet.other_id) == [foreign]
    assert fleet.ids(tag="site=berlin", status="active", platform="linux", name="b") == [pilot]


def test_devices_are_selected_by_their_last_poll(fleet: DescribedFleet) -> None:
    old, new, never = fleet.add("old"), fleet.add("new"), fleet.add("never")
    fleet.was_seen(old, START_MS - 2 * HOUR_MS)
    fleet.was_seen(new, START_MS - 60_000)
    assert fleet.ids(seen_before="1h") == [never, old]
    assert fleet.ids(seen_after="1h") == [new]
    assert fleet.ids(seen_after="3h") == [new, old]
    assert fleet.ids(seen_before="2027-01-15T07:00:00Z") == [never, old]


def test_overdue_devices_come_longest_overdue_first(fleet: DescribedFleet, database: Database) -> None:
    late, later, in_time, revoked = (fleet.add(name) for name in ("late", "later", "in time", "revoked"))
    fleet.was_seen(late, START_MS - HOUR_MS, START_MS - 1000)
    fleet.was_seen(later, START_MS - 2 * HOUR_MS, START_MS - 2000)
    fleet.was_seen(in_time, START_MS, START_MS + 1000)
    database.write_now(devices.revoke, revoked)
    fleet.was_seen(revoked, START_MS - HOUR_MS, START_MS - 3000)
    assert fleet.ids(overdue=True) == [later, late]
    assert fleet.ids(overdue=False) == [in_time, revoked]
    rows = {row.id: row for row in fleet.page().items}
    assert [rows[each].is_overdue for each in (late, later, in_time, revoked)] == [True, True, False, False]


def test_new_device_is_overdue_if_it_does_not_poll(fleet: DescribedFleet, clock: ManualClock) -> None:
    device = fleet.add("new")
    assert fleet.ids(overdue=True) == []
    clock.advance(601)
    assert fleet.ids(overdue=True) == [device]


def test_scope_limits_every_selection(fleet: DescribedFleet, database: Database) -> None:
    own = [fleet.add(f"own-{number}", "tagged") for number in range(3)]
    foreign = fleet.add("foreign", "tagged", user_id=fleet.other_id)
    only_own, both = AllowedIds(frozenset([fleet.user_id])), AllowedIds(frozenset([fleet.user_id, fleet.other_id]))
    assert fleet.ids(only_own) == own
    assert fleet.ids(both) == [*own, foreign]
    assert fleet.ids(only_own, tag="tagged") == own
    assert fleet.ids(only_own, user_id=fleet.other_id) == []
    assert fleet.ids(only_own, name="foreign") == []
    everything = parse_object({})
    assert database.read_now(count_now, FleetCounting(everything, only_own)).total == Count(3, True)
    assert database.read_now(selection.ids_after, everything, own[0], 10, only_own).ids == own[1:]
    assert not database.read_now(selection.matches, everything, foreign, only_own)
    assert database.read_now(selection.matches, everything, foreign, both)


@pytest.mark.parametrize("field", [{}, {"tag": "even"}, {"name": "device"}, {"seen_before": "1s"}, {"overdue": False}])
def test_pages_have_each_device_once_even_if_few_match(
    fleet: DescribedFleet, monkeypatch: pytest.MonkeyPatch, field: dict[str, Any]
) -> None:
    """A page that examines few devices may be short or empty; the pages together have all devices."""
    monkeypatch.setattr(selection, "PAGE_SCAN", 3)
    monkeypatch.setattr(selection, "IDS_SCAN", 3)
    monkeypatch.setattr(index_reader, "FEW", 1)
    added = [fleet.add(f"device-{number:02}", *(["even"] if number % 2 == 0 else [])) for number in range(12)]
    expected = added[::2] if field.get("tag") else added
    assert sorted(fleet.ids(**field)) == expected
    found, after = [], 0
    while True:
        page = fleet.database.read_now(selection.ids_after, parse_object(field), after, 2)
        found.extend(page.ids)
        if page.next is None:
            break
        after = page.next
    assert found == expected


def test_page_is_stable_while_devices_are_added(fleet: DescribedFleet) -> None:
    added = [fleet.add(f"d{number}", "x") for number in range(4)]
    first = fleet.page(None, 2, tag="x")
    fleet.add("new", "x")
    second = fleet.page(first.next, 2, tag="x")
    assert [row.id for row in (*first.items, *second.items)] == added


@pytest.mark.parametrize("after", ["x", "W10", "é", "WyJuYW1lXzAiLDEsMV0", "x" * 3000, "WyJ0YWdfMF8wIixudWxsLDFd"])
def test_place_of_another_filter_is_refused(fleet: DescribedFleet, after: str) -> None:
    with pytest.raises(BadInput, match="after: expected the `next`"):
        fleet.page(after, 10, name="x")


def test_place_names_the_index_of_the_list(fleet: DescribedFleet) -> None:
    fleet.add("b", "x"), fleet.add("a", "x")
    first = fleet.page(None, 1, tag="x")
    assert first.next is not None
    with pytest.raises(BadInput, match="after"):
        fleet.page(first.next, 1, platform="linux")
