import pytest

from restante.commands.sites import sites
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.paging import PageRequest
from tests.commands.operator_fixture import MinerFleet

ALL = PageRequest(100, 0)


def test_new_site_has_a_default_zone(fleet: MinerFleet) -> None:
    site = fleet.write(sites.add, "West", "boss")
    zones = fleet.database.read_now(sites.list_zones, site.id, ALL).items
    assert [(zone.id, zone.name, zone.is_default) for zone in zones] == [(site.default_zone_id, "default", True)]
    assert fleet.database.read_now(sites.get, site.id) == site


def test_sites_and_zones_are_listed_in_pages(fleet: MinerFleet) -> None:
    first = fleet.database.read_now(sites.list_page, PageRequest(1, 0))
    assert ([site.name for site in first.items], first.next) == (["North"], fleet.site_id)
    rest = fleet.database.read_now(sites.list_page, PageRequest(1, first.next or 0))
    assert ([site.name for site in rest.items], rest.next) == (["South"], None)
    assert len(fleet.database.read_now(sites.list_zones, None, ALL).items) == 3
    zones = fleet.database.read_now(sites.list_zones, fleet.site_id, ALL).items
    assert [zone.name for zone in zones] == ["default", "east"]


def test_site_names_are_unique_and_zone_names_within_their_site(fleet: MinerFleet) -> None:
    with pytest.raises(Conflict):
        fleet.write(sites.add, "North", "boss")
    with pytest.raises(Conflict):
        fleet.write(sites.add_zone, fleet.site_id, "east", "boss")
    assert fleet.write(sites.add_zone, fleet.other_site, "east", "boss").site_id == fleet.other_site
    assert fleet.count("edge_sites") == 2


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", " a", "a\ud800"])
def test_unprintable_or_long_name_is_refused(fleet: MinerFleet, name: str) -> None:
    for add, args in ((sites.add, ()), (sites.add_zone, (fleet.site_id,))):
        with pytest.raises(BadInput) as refused:
            fleet.write(add, *args, name, "boss")
        assert refused.value.field == "name"


def test_unknown_site_is_refused(fleet: MinerFleet) -> None:
    with pytest.raises(NotFound):
        fleet.database.read_now(sites.get, 99)
    with pytest.raises(BadInput):
        fleet.write(sites.add_zone, 99, "west", "boss")


def test_new_sites_and_zones_are_audited(fleet: MinerFleet) -> None:
    rows = fleet.query("SELECT event, actor FROM command_audit WHERE chain = :chain ORDER BY n", chain=fleet.site_id)
    assert [tuple(dict(row).values()) for row in rows[:2]] == [("site.created", "tests"), ("zone.created", "tests")]
