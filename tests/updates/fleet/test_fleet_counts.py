"""How many devices a filter selects: exact with any number of steps, and alike from an index and from devices."""

from typing import Any

import pytest

from restante.database.lists.long_counts import count_now
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.devices import devices
from restante.updates.fleet import fleet_counts
from restante.updates.fleet.device_filter import parse_object
from restante.updates.fleet.fleet_counts import Count, Counts, FleetCounting
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit
from restante.updates.install.install_items import checked_installs
from tests.conftest import START_MS, ManualClock
from tests.updates.fleet.fleet_fixture import DescribedFleet


def counted(fleet: DescribedFleet, users: AllowedIds = ALL_IDS, **fields: Any) -> Counts:
    return fleet.database.read_now(count_now, FleetCounting(parse_object(fields), users))


def values(counts: Counts) -> dict[str, int]:
    assert counts.total.is_exact
    return {
        "total": counts.total.value,
        **{name: each.value for name, each in (*counts.status.items(), *counts.config.items())},
        "overdue": counts.overdue.value,
    }


@pytest.fixture
def described(fleet: DescribedFleet) -> DescribedFleet:
    """Nine devices: three of another user; two revoked; four with a config, of which one has fetched and one failed;
    five seen, of which two are overdue."""
    ids = [fleet.add(f"d{number}", "x", platform="linux") for number in range(6)]
    ids += [fleet.add(f"e{number}", "x", "y", user_id=fleet.other_id) for number in range(3)]
    for device_id in ids[:4]:
        edit = ConfigEdit(fleet.user_id, device_id, "tests")
        fleet.database.write_now(install_configs.put, fleet.emit, edit, checked_installs([]), None)
    fleet.database.write_now(install_configs.mark_fetched, ids[0], 1)
    fleet.database.write_now(install_configs.mark_outcome, ids[1], 1, "no space")
    for number, device_id in enumerate(ids[2:7]):
        fleet.was_seen(device_id, START_MS, START_MS - 1 if number < 2 else START_MS + 600_000)
    for device_id in (ids[5], ids[8]):
        fleet.database.write_now(devices.revoke, device_id)
    return fleet


EVERYTHING = {"total": 9, "active": 7, "revoked": 2, "behind": 3, "current": 1, "applied": 0, "failed": 1, "overdue": 2}


@pytest.mark.parametrize("step", [1, 2, 4, 1000])
def test_counts_are_exact_in_steps_of_any_size(
    described: DescribedFleet, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(fleet_counts, "COUNT_STEP", step)
    both = AllowedIds(frozenset([described.user_id, described.other_id]))
    assert values(counted(described)) == EVERYTHING
    assert values(counted(described, tag="x")) == EVERYTHING
    assert values(counted(described, both)) == EVERYTHING
    own = values(counted(described, AllowedIds(frozenset([described.user_id]))))
    assert own == {**EVERYTHING, "total": 6, "active": 5, "revoked": 1}
    assert values(counted(described, name="d")) == own
    assert values(counted(described, tag="y")) == {
        **dict.fromkeys(EVERYTHING, 0),
        "total": 3,
        "active": 2,
        "revoked": 1,
    }
    assert counted(described, tag="y", status="active").total == Count(2, True)
    assert counted(described, platform="linux", overdue=True).total == Count(2, True)
    assert counted(described, AllowedIds(frozenset())).total == Count(0, True)


def test_counts_end_at_their_bound(described: DescribedFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_counts, "COUNT_STEP", 2)
    monkeypatch.setattr(fleet_counts, "COUNT_MAX", 4)
    assert counted(described, tag="x").total == Count(4, False)
    assert counted(described).total == Count(4, False)
