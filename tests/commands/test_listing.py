from typing import Any

import msgspec
import pytest

from restante.commands import cancelling, listing
from restante.commands.listing import CommandFilter
from restante.commands.wire import CommandNotFound
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.operators import World
from tests.conftest import ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def ids(world: World, **wanted: Any) -> list[str]:
    chosen = CommandFilter(**wanted)
    page = world.database.read_now(listing.list_page, chosen, Window(100, 0))
    return [command.command_id for command in page.items]


def test_filters_newest_first(world: World) -> None:
    first = world.create("ada", dedupe_key="k").command_id
    second = world.create("bob", miner_id=world.second_miner, command_type="SET_FAN", params=b'{"speed":1}').command_id
    third = world.create("ada", site_id=world.other_site, miner_id=world.foreign_miner, rule_id=7).command_id
    world.write(cancelling.cancel, first, "ada")
    everything = [third, second, first]
    for wanted, found in (
        ({}, everything),
        ({"site_id": world.site_id}, [second, first]),
        ({"miner_id": world.second_miner}, [second]),
        ({"miner_id": world.second_miner, "site_id": world.other_site}, []),
        ({"status": "pending"}, [third, second]),
        ({"status": "cancelled", "site_id": world.site_id}, [first]),
        ({"command_type": "SET_FAN"}, [second]),
        ({"created_by": "ada"}, [third, first]),
        ({"dedupe_key": "k"}, [first]),
        ({"rule_id": 7}, [third]),
    ):
        assert ids(world, **wanted) == found


def test_pages(world: World) -> None:
    made = [world.create().command_id for _ in range(5)]
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        page = world.database.read_now(listing.list_page, CommandFilter(site_id=world.site_id), Window(2, after))
        seen += [command.command_id for command in page.items]
        after = page.next
    assert seen == made[::-1]


def test_what_is_shown_of_a_held_command(world: World) -> None:
    collector = world.add_collector()
    made = world.create(params=b'{"b": [1, null], "a": "\xc3\xbc"}')
    world.claim(collector)
    shown = world.show(made.command_id)
    assert (shown.status, shown.lease_owner, shown.attempt) == ("dispatched", collector.id, 1)
    assert (shown.dispatched_at, shown.lease_until) == ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")
    assert bytes(shown.params) == '{"a":"ü","b":[1,null]}'.encode()
    assert [row.event for row in shown.history] == ["command.created", "command.dispatched"]
    nonce = world.query("SELECT nonce FROM miner_commands")[0]["nonce"]
    assert nonce.encode() not in msgspec.json.encode(shown)


def test_there_must_be_such_a_command(world: World) -> None:
    with pytest.raises(CommandNotFound):
        world.show("cmd_none")
