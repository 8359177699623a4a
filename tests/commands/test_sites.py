import pytest

from restante.commands import sites
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.operators import World
from tests.conftest import ManualClock

ALL = Window(100, 0)


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def test_a_site_has_a_default_zone(world: World) -> None:
    site = world.write(sites.add, "West", "boss")
    zones = world.database.read_now(sites.list_zones, site.id, ALL).items
    assert [(zone.id, zone.name, zone.is_default) for zone in zones] == [(site.default_zone_id, "default", True)]
    assert world.database.read_now(sites.get, site.id) == site


def test_sites_and_zones_in_pages(world: World) -> None:
    first = world.database.read_now(sites.list_page, Window(1, 0))
    assert ([site.name for site in first.items], first.next) == (["North"], world.site_id)
    rest = world.database.read_now(sites.list_page, Window(1, first.next or 0))
    assert ([site.name for site in rest.items], rest.next) == (["South"], None)
    assert len(world.database.read_now(sites.list_zones, None, ALL).items) == 3
    zones = world.database.read_now(sites.list_zones, world.site_id, ALL).items
    assert [zone.name for zone in zones] == ["default", "east"]


def test_names_are_unique_where_they_must_be(world: World) -> None:
    with pytest.raises(Conflict):
        world.write(sites.add, "North", "boss")
    with pytest.raises(Conflict):
        world.write(sites.add_zone, world.site_id, "east", "boss")
    assert world.write(sites.add_zone, world.other_site, "east", "boss").site_id == world.other_site
    assert world.count("edge_sites") == 2


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", " a", "a\ud800"])
def test_a_name_is_printable_and_short(world: World, name: str) -> None:
    for add, args in ((sites.add, ()), (sites.add_zone, (world.site_id,))):
        with pytest.raises(BadInput) as refused:
            world.write(add, *args, name, "boss")
        assert refused.value.field == "name"


def test_there_must_be_such_a_site(world: World) -> None:
    with pytest.raises(NotFound):
        world.database.read_now(sites.get, 99)
    with pytest.raises(BadInput):
        world.write(sites.add_zone, 99, "west", "boss")


def test_changes_are_recorded(world: World) -> None:
    rows = world.query("SELECT event, actor FROM command_audit WHERE chain = :chain ORDER BY n", chain=world.site_id)
    assert [tuple(dict(row).values()) for row in rows[:2]] == [("site.created", "tests"), ("zone.created", "tests")]
