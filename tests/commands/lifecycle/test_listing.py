from typing import Any

import msgspec
import pytest

from restante.commands.errors import CommandNotFound
from restante.commands.lifecycle import cancellation, listing
from restante.commands.lifecycle.listing import CommandFilter
from restante.database.paging import PageRequest
from tests.commands.operator_fixture import MinerFleet


def ids(fleet: MinerFleet, **filters: Any) -> list[str]:
    page = fleet.database.read_now(listing.list_page, CommandFilter(**filters), PageRequest(100, 0))
    return [command.command_id for command in page.items]


def test_filters_select_commands_newest_first(fleet: MinerFleet) -> None:
    first = fleet.create("ada", dedupe_key="k").command_id
    second = fleet.create("bob", miner_id=fleet.second_miner, command_type="SET_FAN", params=b'{"speed":1}').command_id
    third = fleet.create("ada", site_id=fleet.other_site, miner_id=fleet.other_site_miner, rule_id=7).command_id
    fleet.write(cancellation.cancel, first, "ada")
    everything = [third, second, first]
    for filters, found in (
        ({}, everything),
        ({"site_id": fleet.site_id}, [second, first]),
        ({"miner_id": fleet.second_miner}, [second]),
        ({"miner_id": fleet.second_miner, "site_id": fleet.other_site}, []),
        ({"status": "pending"}, [third, second]),
        ({"status": "cancelled", "site_id": fleet.site_id}, [first]),
        ({"command_type": "SET_FAN"}, [second]),
        ({"created_by": "ada"}, [third, first]),
        ({"dedupe_key": "k"}, [first]),
        ({"rule_id": 7}, [third]),
    ):
        assert ids(fleet, **filters) == found


def test_pages_cover_all_commands_once(fleet: MinerFleet) -> None:
    created = [fleet.create().command_id for _ in range(5)]
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        page = fleet.database.read_now(listing.list_page, CommandFilter(site_id=fleet.site_id), PageRequest(2, after))
        seen += [command.command_id for command in page.items]
        after = page.next
    assert seen == created[::-1]


def test_leased_command_is_shown_without_its_nonce(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    created = fleet.create(params=b'{"b": [1, null], "a": "\xc3\xbc"}')
    fleet.claim(collector)
    view = fleet.show(created.command_id)
    assert (view.status, view.lease_owner, view.attempt) == ("dispatched", collector.id, 1)
    assert (view.dispatched_at, view.lease_until) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z")
    assert bytes(view.params) == '{"a":"ü","b":[1,null]}'.encode()
    assert [row.event for row in view.history] == ["command.created", "command.dispatched"]
    nonce = fleet.query("SELECT nonce FROM miner_commands")[0]["nonce"]
    assert nonce.encode() not in msgspec.json.encode(view)


def test_missing_command_is_not_found(fleet: MinerFleet) -> None:
    with pytest.raises(CommandNotFound):
        fleet.show("cmd_none")
