from typing import Any

import msgspec
import pytest

from restante.database.database import Database
from restante.updates.devices import notifications
from restante.updates.devices.notifications import EVENTS_BYTES_MAX, bounded_events, reported_version
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet


@pytest.mark.parametrize(
    ("events", "version"),
    [
        ([], None),
        ([{"agent_version": "1.2.3"}], "1.2.3"),
        ([{"version": "1"}, {"app_version": "2"}], "2"),
        ([{"app_version": "3", "version": "2", "agent_version": "1"}], "1"),
        ([{"app_version": "3", "version": "2"}], "2"),
        ([{"type": "x", "data": {"agent_version": "4"}}], "4"),
        ([{"agent_version": "5"}, {"type": "no version here"}], "5"),
        ([{"agent_version": 6}], None),
        ([{"agent_version": ""}], None),
        ([{"agent_version": "x" * 129}], None),
        ([{"agent_version": "a\nb"}], None),
        (["text", 7, None, ["agent_version"]], None),
    ],
)
def test_newest_version_in_the_events_is_found(events: list[Any], version: str | None) -> None:
    assert reported_version(events) == version


def test_events_are_stored_unchanged() -> None:
    events = [{"a": 1}, "two", None]
    assert msgspec.json.decode(bounded_events(events)) == events
    assert bounded_events([]) == "[]"


def test_only_the_newest_events_that_fit_are_stored() -> None:
    events = [{"n": n, "pad": "x" * 1000} for n in range(100)]
    kept = bounded_events(events)
    assert len(kept.encode()) <= EVENTS_BYTES_MAX
    numbers = [event["n"] for event in msgspec.json.decode(kept)]
    assert numbers == list(range(100 - len(numbers), 100))
    assert len(numbers) == 16
    assert bounded_events(["ü" * EVENTS_BYTES_MAX]) == "[]"


def test_report_is_stored_on_the_devices_row(database: Database) -> None:
    fleet = DeviceFleet(database)
    device, other = fleet.add_device(), fleet.add_device()
    database.write_now(notifications.report, device.id, "1.0", "[1]")
    database.write_now(notifications.report, device.id, None, "[2]")
    row, untouched = fleet.query("SELECT * FROM user_devices ORDER BY id")
    assert (row["agent_version"], row["agent_events"], row["agent_reported_at"]) == ("1.0", "[2]", START_MS)
    assert (untouched["id"], untouched["agent_events"]) == (other.id, None)
