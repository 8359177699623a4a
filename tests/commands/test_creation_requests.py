from typing import Any

import msgspec
import pytest

from restante.commands import creation_requests
from restante.commands.creation_requests import CreationBody, CreationRequest
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.web.ask import decode_json
from restante.web.idempotency import Answered, KeyReused
from tests.commands.operators import World
from tests.conftest import ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def one(world: World, **changed: Any) -> dict[str, Any]:
    return {"site_id": world.site_id, "command_type": "HASHING_ENABLE", "miner_id": world.miner, **changed}


def ask(world: World, body: Any, key: str | None = None, actor: str = "ada") -> Answered:
    decoded = decode_json(msgspec.json.encode(body), CreationBody)
    made: Answered = world.write(creation_requests.carry_out, world.options, CreationRequest(decoded, actor, key))
    return made


def test_one(world: World) -> None:
    answer = msgspec.json.decode(ask(world, one(world)).json)
    assert (answer["status"], answer["miner_id"]) == ("pending", world.miner)
    assert world.show(answer["command_id"]).created_by == "ada"


def test_every_field_reaches_the_command(world: World) -> None:
    old = world.create().command_id
    body = one(
        world,
        params={"reason": "r"},
        priority=9,
        expires_at="2027-01-15T09:30:00+00:00",
        dedupe_key="k",
        max_retries=1,
        zone_id=world.default_zone,
        supersedes=old,
    )
    shown = world.show(msgspec.json.decode(ask(world, body).json)["command_id"])
    assert (shown.priority, shown.expires_at, shown.dedupe_key) == (9, "2027-01-15T09:30:00Z", "k")
    assert (shown.max_retries, bytes(shown.params)) == (1, b'{"reason":"r"}')
    assert world.show(old).status == "cancelled"


def test_many_are_made_together(world: World) -> None:
    answer = msgspec.json.decode(ask(world, {"commands": [one(world), one(world, all_miners=False)]}).json)
    assert answer["count"] == len(answer["commands"]) == world.count() == 2


def test_many_are_all_made_or_none(world: World) -> None:
    with pytest.raises(BadInput) as refused:
        ask(world, {"commands": [one(world), one(world), one(world, miner_id=99)]})
    assert refused.value.field == "commands[2].miner_id"
    assert world.count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "site_id"),
        ({"site_id": 1}, "command_type"),
        ({"site_id": 0, "command_type": "restart"}, "site_id"),
        ({"site_id": 1, "command_type": "restart", "miner_id": 1, "expires_at": "soon"}, "expires_at"),
        ({"site_id": 1, "command_type": "restart", "miner_id": 1, "params": None}, "params"),
        ({"site_id": 1, "command_type": "restart", "miner_id": "1"}, "miner_id"),
        ({"site_id": 1, "command_type": "restart", "target_ids": [0]}, "target_ids[0]"),
        ({"site_id": 1, "command_type": "restart", "miner": 1}, "miner"),
        ({"commands": []}, "commands"),
        ({"commands": [{}]}, "commands[0].site_id"),
        ({"commands": [{"site_id": 1, "command_type": "restart", "miner_id": 1}], "priority": 1}, "commands"),
        ({"commands": [{"site_id": 1, "command_type": "x"}] * 501}, "commands"),
    ],
)
def test_what_is_wrong_is_named(world: World, body: Any, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        ask(world, body)
    assert refused.value.field == field
    assert world.count() == 0


def test_the_same_request_again_makes_nothing_and_is_answered_the_same(world: World) -> None:
    first = ask(world, one(world), "k")
    again = ask(world, one(world), "k")
    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert first.json == again.json
    assert world.count() == 1
    assert not ask(world, one(world), "other").is_replayed
    assert not ask(world, one(world), "k", actor="bob").is_replayed
    assert not ask(world, one(world)).is_replayed
    assert world.count() == 4


@pytest.mark.parametrize("changed", [{"priority": 1}, {"params": {"reason": "r"}}])
def test_another_request_under_the_key_is_refused(world: World, changed: dict[str, Any]) -> None:
    ask(world, one(world), "k")
    with pytest.raises(KeyReused):
        ask(world, one(world, **changed), "k")
    assert world.count() == 1


def test_a_request_that_failed_leaves_no_key(world: World) -> None:
    with pytest.raises(BadInput):
        ask(world, one(world, miner_id=99), "k")
    assert not ask(world, one(world), "k").is_replayed
