"""Sites, zones and miners are renamed, moved, retired and replaced; refused while a command is open."""

import msgspec
import pytest

from restante.commands.audit import audit_listing
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.lifecycle import cancellation, creation
from restante.commands.rules import rules
from restante.commands.rules.rules import RuleRequest
from restante.commands.sites import collectors, inventory, miners, sites
from restante.commands.sites.inventory import MinerChange
from restante.commands.sites.miners import MinerFilter
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.paging import PageRequest
from restante.identity.grants import AllowedIds
from tests.commands.operator_fixture import MinerFleet

BOSS = "boss"
ALL = PageRequest(100, 0)


def audited(fleet: MinerFleet, site_id: int, event: str) -> list[object]:
    page = fleet.database.read_now(audit_listing.list_page, AuditFilter(site_id=site_id, event=event), ALL)
    return [msgspec.json.decode(row.detail) for row in page.items]


def add_rule(fleet: MinerFleet, *miner_ids: int) -> int:
    request = RuleRequest(
        name="hot",
        site_id=fleet.site_id,
        miner_ids=list(miner_ids),
        trigger_type="threshold",
        trigger_metric="temp_max",
        trigger_operator=">",
        trigger_value=90.0,
        action_type="MINER_RESTART",
    )
    return int(fleet.write(rules.create, fleet.box, request, BOSS).id)


def change(fleet: MinerFleet, miner_id: int, **fields: object) -> miners.Miner:
    changed: miners.Miner = fleet.write(inventory.change_miner, miner_id, MinerChange(**fields), BOSS)  # type: ignore[arg-type]
    return changed


def test_names_are_changed_and_audited(fleet: MinerFleet) -> None:
    assert fleet.write(inventory.rename_site, fleet.site_id, "North 2", BOSS).name == "North 2"
    assert fleet.write(inventory.rename_zone, fleet.east, "far east", BOSS).name == "far east"
    assert change(fleet, fleet.miner, name="S21").name == "S21"
    assert audited(fleet, fleet.site_id, "site.renamed") == [{"from": "North", "to": "North 2"}]
    assert audited(fleet, fleet.site_id, "zone.renamed") == [{"zone_id": fleet.east, "from": "east", "to": "far east"}]
    assert audited(fleet, fleet.site_id, "miner.renamed") == [{"miner_id": fleet.miner, "from": "miner", "to": "S21"}]
    # The same name again is no change.
    fleet.write(inventory.rename_site, fleet.site_id, "North 2", BOSS)
    assert len(audited(fleet, fleet.site_id, "site.renamed")) == 1


def test_taken_and_invalid_names_are_refused(fleet: MinerFleet) -> None:
    with pytest.raises(Conflict, match="a site named South already exists"):
        fleet.write(inventory.rename_site, fleet.site_id, "South", BOSS)
    with pytest.raises(Conflict, match="already has a zone named default"):
        fleet.write(inventory.rename_zone, fleet.east, "default", BOSS)
    for name in ("", " a", "a\nb"):
        with pytest.raises(BadInput, match="name"):
            fleet.write(inventory.rename_site, fleet.site_id, name, BOSS)
        with pytest.raises(BadInput, match="name"):
            change(fleet, fleet.miner, name=name)


def test_miner_moves_to_a_zone_and_to_a_site(fleet: MinerFleet) -> None:
    moved = change(fleet, fleet.miner, zone_id=fleet.east)
    assert (moved.site_id, moved.zone_id) == (fleet.site_id, fleet.east)
    moved = change(fleet, fleet.miner, site_id=fleet.other_site)
    south = fleet.database.read_now(sites.get, fleet.other_site)
    assert (moved.site_id, moved.zone_id) == (fleet.other_site, south.default_zone_id)
    for site_id in (fleet.site_id, fleet.other_site):
        assert audited(fleet, site_id, "miner.moved")[0] == {
            "miner_id": fleet.miner,
            "from": {"site_id": fleet.site_id, "zone_id": fleet.east},
            "to": {"site_id": fleet.other_site, "zone_id": south.default_zone_id},
        }
    # Commands go where the miner is now.
    created = fleet.create(site_id=fleet.other_site)
    assert fleet.show(created.command_id).zone_id == south.default_zone_id
    with pytest.raises(BadInput, match="miner_id"):
        fleet.create()
    assert fleet.verdict().intact


def test_place_that_does_not_exist_is_refused(fleet: MinerFleet) -> None:
    for fields, field in (({"zone_id": 99}, "zone_id"), ({"site_id": 99}, "site_id")):
        with pytest.raises(BadInput, match=field):
            change(fleet, fleet.miner, **fields)
    with pytest.raises(BadInput, match="zone_id"):
        change(fleet, fleet.miner, site_id=fleet.other_site, zone_id=fleet.east)
    with pytest.raises(NotFound):
        change(fleet, 99, name="x")


def test_miner_with_an_open_command_stays(fleet: MinerFleet) -> None:
    command_id = fleet.create().command_id
    for work, arguments in (
        (inventory.change_miner, (MinerChange(zone_id=fleet.east), BOSS)),
        (inventory.retire_miner, (BOSS,)),
        (inventory.replace_miner, ("new", None, BOSS)),
    ):
        with pytest.raises(Conflict, match="the miner has 1 open commands"):
            fleet.write(work, fleet.miner, *arguments)
    assert change(fleet, fleet.miner, name="renamed").name == "renamed"
    fleet.write(cancellation.cancel, command_id, BOSS, None)
    assert change(fleet, fleet.miner, zone_id=fleet.east).zone_id == fleet.east


def test_miner_that_a_rule_names_is_not_moved_to_another_site_or_retired(fleet: MinerFleet) -> None:
    rule_id = add_rule(fleet, fleet.miner, fleet.second_miner)
    with pytest.raises(Conflict, match=rf"cannot be moved while rules name it \({rule_id}\)"):
        change(fleet, fleet.miner, site_id=fleet.other_site)
    with pytest.raises(Conflict, match="cannot be retired"):
        fleet.write(inventory.retire_miner, fleet.miner, BOSS)
    assert change(fleet, fleet.miner, zone_id=fleet.east).zone_id == fleet.east


def test_retired_miner_is_no_target_and_stays_in_lists(fleet: MinerFleet) -> None:
    retired = fleet.write(inventory.retire_miner, fleet.miner, BOSS)
    assert (retired.status, retired.retired_at is not None) == ("retired", True)
    with pytest.raises(BadInput, match="miner_id"):
        fleet.create()
    targets = fleet.database.read_now(miners.list_targets, fleet.site_id, None)
    assert [target.id for target in targets] == [fleet.second_miner, fleet.east_miner]
    listed = fleet.database.read_now(miners.list_page, MinerFilter(fleet.site_id, status="retired"), ALL)
    assert [miner.id for miner in listed.items] == [fleet.miner]
    fleet.write(inventory.retire_miner, fleet.miner, BOSS)
    assert audited(fleet, fleet.site_id, "miner.retired") == [{"miner_id": fleet.miner}]
    with pytest.raises(Conflict, match="the miner is retired"):
        change(fleet, fleet.miner, name="x")


def test_replacement_takes_the_zone_and_the_place_in_rules(fleet: MinerFleet) -> None:
    rule_id = add_rule(fleet, fleet.east_miner, fleet.miner)
    new = fleet.write(inventory.replace_miner, fleet.east_miner, "S21", 7001, BOSS)
    assert (new.id, new.name, new.zone_id, new.status) == (7001, "S21", fleet.east, "active")
    assert fleet.database.read_now(rules.get, rule_id).miner_ids == [7001, fleet.miner]
    old = fleet.database.read_now(miners.get, fleet.east_miner)
    assert (old.status, old.replaced_by) == ("retired", 7001)
    expected = {"rule_id": rule_id, "replaced_miner": fleet.east_miner, "by": 7001}
    assert audited(fleet, fleet.site_id, "rule.miner_replaced") == [expected]
    with pytest.raises(Conflict, match="already exists"):
        fleet.write(inventory.replace_miner, fleet.miner, "S22", 7001, BOSS)
    assert fleet.database.read_now(miners.get, fleet.miner).status == "active"


def test_zone_in_use_is_not_retired(fleet: MinerFleet) -> None:
    with pytest.raises(Conflict, match="1 miners"):
        fleet.write(inventory.retire_zone, fleet.east, BOSS)
    fleet.write(inventory.retire_miner, fleet.east_miner, BOSS)
    collector = fleet.add_collector("east collector", fleet.east)
    with pytest.raises(Conflict, match="1 collectors"):
        fleet.write(inventory.retire_zone, fleet.east, BOSS)
    fleet.write(collectors.revoke, collector.id, BOSS)
    assert fleet.write(inventory.retire_zone, fleet.east, BOSS).retired_at is not None
    with pytest.raises(BadInput, match="zone_id"):
        change(fleet, fleet.miner, zone_id=fleet.east)
    with pytest.raises(Conflict, match="default zone"):
        fleet.write(inventory.retire_zone, fleet.default_zone, BOSS)


def test_site_is_retired_when_nothing_uses_it(fleet: MinerFleet) -> None:
    command_id = fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner).command_id
    with pytest.raises(Conflict, match="1 miners, 1 commands"):
        fleet.write(inventory.retire_site, fleet.other_site, BOSS)
    fleet.write(cancellation.cancel, command_id, BOSS, None)
    fleet.write(inventory.retire_miner, fleet.other_site_miner, BOSS)
    assert fleet.write(inventory.retire_site, fleet.other_site, BOSS).retired_at is not None
    for_all = fleet.command_request(site_id=fleet.other_site, miner_id=None, all_miners=True)
    for work, arguments in (
        (sites.add_zone, (fleet.other_site, "zone", BOSS)),
        (miners.add, (miners.MinerRequest(fleet.other_site, "m"), BOSS)),
        (creation.create, (for_all, BOSS, fleet.options)),
    ):
        with pytest.raises(BadInput, match="site_id"):
            fleet.write(work, *arguments)
    # What refers to it is still there.
    assert fleet.show(command_id).site_id == fleet.other_site
    assert fleet.verdict().intact


def test_resources_of_other_sites_do_not_exist_for_a_caller(fleet: MinerFleet) -> None:
    south = AllowedIds(frozenset([fleet.other_site]))
    with pytest.raises(NotFound, match="no such miner"):
        fleet.write(inventory.change_miner, fleet.miner, MinerChange(name="x"), BOSS, south)
    with pytest.raises(NotFound, match="no such zone"):
        fleet.write(inventory.rename_zone, fleet.east, "x", BOSS, south)
    with pytest.raises(BadInput, match="site_id"):
        fleet.write(inventory.change_miner, fleet.other_site_miner, MinerChange(site_id=fleet.site_id), BOSS, south)
