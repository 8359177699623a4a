from concurrent.futures import ThreadPoolExecutor

import pytest

from restante.commands.sites import miners
from restante.commands.sites.miners import MinerFilter, MinerRequest
from restante.core.errors import BadInput, Conflict
from restante.database.paging import PageRequest
from tests.commands.operator_fixture import MinerFleet

ALL = PageRequest(100, 0)


def test_miner_id_is_chosen_by_the_operator_or_assigned(fleet: MinerFleet) -> None:
    chosen = fleet.write(miners.add, MinerRequest(fleet.site_id, "S19", fleet.east, 1001), "boss")
    assert (chosen.id, chosen.zone_id, chosen.name) == (1001, fleet.east, "S19")
    assigned = fleet.write(miners.add, MinerRequest(fleet.site_id, "S21"), "boss")
    assert (assigned.id, assigned.zone_id) == (1002, fleet.default_zone)
    with pytest.raises(Conflict):
        fleet.write(miners.add, MinerRequest(fleet.other_site, "S19", None, 1001), "boss")


def test_miner_needs_an_existing_site_and_a_zone_of_it(fleet: MinerFleet) -> None:
    for request, field in (
        (MinerRequest(99, "m"), "site_id"),
        (MinerRequest(fleet.other_site, "m", fleet.east), "zone_id"),
        (MinerRequest(fleet.site_id, "m", 99), "zone_id"),
        (MinerRequest(fleet.site_id, ""), "name"),
    ):
        with pytest.raises(BadInput) as refused:
            fleet.write(miners.add, request, "boss")
        assert refused.value.field == field


def test_miners_are_listed_by_site_and_zone_in_pages(fleet: MinerFleet) -> None:
    def ids(site_id: int | None, zone_id: int | None, page: PageRequest = ALL) -> list[int]:
        found = fleet.database.read_now(miners.list_page, MinerFilter(site_id, zone_id), page)
        return [miner.id for miner in found.items]

    mine = [fleet.miner, fleet.second_miner, fleet.east_miner]
    assert ids(None, None) == [*mine, fleet.other_site_miner]
    assert ids(fleet.site_id, None) == mine
    assert ids(fleet.site_id, fleet.east) == ids(None, fleet.east) == [fleet.east_miner]
    assert ids(fleet.site_id, None, PageRequest(1, fleet.miner)) == [fleet.second_miner]


def test_adding_a_miner_is_audited(fleet: MinerFleet) -> None:
    rows = fleet.query("SELECT COUNT(*) AS count FROM command_audit WHERE event = 'miner.created'")
    assert rows[0]["count"] == 4


def add_miner(fleet: MinerFleet, miner_id: int | None = None) -> int:
    added: miners.Miner = fleet.write(miners.add, MinerRequest(fleet.site_id, "S21", None, miner_id), "boss")
    return added.id


@pytest.mark.parametrize("chosen", [[2**53], [2**53, 2**53 - 1], [2**53, 1007]])
def test_assigned_ids_stay_exact_in_json_after_the_highest_id_was_chosen(fleet: MinerFleet, chosen: list[int]) -> None:
    """A JSON parser may round integers above 2^53: commands would reach another miner."""
    highest = add_miner(fleet)
    for miner_id in chosen:
        add_miner(fleet, miner_id)
    free = max([highest, *(miner_id for miner_id in chosen if miner_id < 2**52)]) + 1
    assert [add_miner(fleet), add_miner(fleet)] == [free, free + 1]


def test_miners_added_at_once_get_different_ids(fleet: MinerFleet) -> None:
    before = add_miner(fleet)
    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(lambda _: add_miner(fleet), range(12)))
    assert sorted(added) == list(range(before + 1, before + 13))
