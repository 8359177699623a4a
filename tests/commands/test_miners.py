import pytest

from restante.commands import miners
from restante.commands.miners import MinerWish
from restante.core.errors import BadInput, Conflict
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.operators import World
from tests.conftest import ManualClock

ALL = Window(100, 0)


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def test_an_id_may_be_brought_or_is_given(world: World) -> None:
    brought = world.write(miners.add, MinerWish(world.site_id, "S19", world.east, 1001), "boss")
    assert (brought.id, brought.zone_id, brought.name) == (1001, world.east, "S19")
    given = world.write(miners.add, MinerWish(world.site_id, "S21"), "boss")
    assert (given.id, given.zone_id) == (1002, world.default_zone)
    with pytest.raises(Conflict):
        world.write(miners.add, MinerWish(world.other_site, "S19", None, 1001), "boss")


def test_site_and_zone_must_be_there_and_belong_together(world: World) -> None:
    for wish, field in (
        (MinerWish(99, "m"), "site_id"),
        (MinerWish(world.other_site, "m", world.east), "zone_id"),
        (MinerWish(world.site_id, "m", 99), "zone_id"),
        (MinerWish(world.site_id, ""), "name"),
    ):
        with pytest.raises(BadInput) as refused:
            world.write(miners.add, wish, "boss")
        assert refused.value.field == field


def test_miners_in_pages_by_site_and_zone(world: World) -> None:
    def ids(site_id: int | None, zone_id: int | None, window: Window = ALL) -> list[int]:
        found = world.database.read_now(miners.list_page, site_id, zone_id, window)
        return [miner.id for miner in found.items]

    mine = [world.miner, world.second_miner, world.east_miner]
    assert ids(None, None) == [*mine, world.foreign_miner]
    assert ids(world.site_id, None) == mine
    assert ids(world.site_id, world.east) == ids(None, world.east) == [world.east_miner]
    assert ids(world.site_id, None, Window(1, world.miner)) == [world.second_miner]


def test_it_is_recorded(world: World) -> None:
    rows = world.query("SELECT COUNT(*) AS count FROM command_audit WHERE event = 'miner.created'")
    assert rows[0]["count"] == 4
