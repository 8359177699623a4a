from typing import Any

import msgspec
import pytest

from restante.commands.lifecycle import creation_requests
from restante.commands.lifecycle.creation_requests import CreationBody, CreationRequest
from restante.core.decoding import decode_json
from restante.core.errors import BadInput
from restante.identity.idempotency import IdempotentResult, KeyReused
from tests.commands.operator_fixture import MinerFleet


def one(fleet: MinerFleet, **changed: Any) -> dict[str, Any]:
    return {"site_id": fleet.site_id, "command_type": "HASHING_ENABLE", "miner_id": fleet.miner, **changed}


def create(fleet: MinerFleet, body: Any, key: str | None = None, actor: str = "ada") -> IdempotentResult:
    decoded = decode_json(msgspec.json.encode(body), CreationBody)
    result: IdempotentResult = fleet.write(
        creation_requests.create_commands, fleet.options, CreationRequest(decoded, actor, key)
    )
    return result


def test_single_command_is_created(fleet: MinerFleet) -> None:
    response = msgspec.json.decode(create(fleet, one(fleet)).json)
    assert (response["status"], response["miner_id"]) == ("pending", fleet.miner)
    assert fleet.show(response["command_id"]).created_by == "ada"


def test_every_field_reaches_the_command(fleet: MinerFleet) -> None:
    old = fleet.create().command_id
    body = one(
        fleet,
        params={"reason": "r"},
        priority=9,
        expires_at="2027-01-15T09:30:00+00:00",
        dedupe_key="k",
        max_retries=1,
        zone_id=fleet.default_zone,
        supersedes=old,
    )
    view = fleet.show(msgspec.json.decode(create(fleet, body).json)["command_id"])
    assert (view.priority, view.expires_at, view.dedupe_key) == (9, "2027-01-15T09:30:00.000Z", "k")
    assert (view.max_retries, bytes(view.params)) == (1, b'{"reason":"r"}')
    assert fleet.show(old).status == "cancelled"


def test_many_commands_are_created_together(fleet: MinerFleet) -> None:
    response = msgspec.json.decode(create(fleet, {"commands": [one(fleet), one(fleet, all_miners=False)]}).json)
    assert response["count"] == len(response["commands"]) == fleet.count() == 2


def test_one_invalid_command_of_many_prevents_all(fleet: MinerFleet) -> None:
    with pytest.raises(BadInput) as refused:
        create(fleet, {"commands": [one(fleet), one(fleet), one(fleet, miner_id=99)]})
    assert refused.value.field == "commands[2].miner_id"
    assert fleet.count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "site_id"),
        ({"site_id": 1}, "command_type"),
        ({"site_id": 0, "command_type": "restart"}, "site_id"),
        ({"site_id": 1, "command_type": "restart", "miner_id": 1, "expires_at": "soon"}, "expires_at"),
        ({"site_id": 1, "command_type": "restart", "miner_id": 1, "params": None}, "params"),
        ({"site_id": 1, "command_type": "restart", "miner_id": "1x"}, "miner_id"),
        ({"site_id": 1, "command_type": "restart", "target_ids": [0]}, "target_ids[0]"),
        ({"site_id": 1, "command_type": "restart", "miner": 1}, "miner"),
        ({"commands": []}, "commands"),
        ({"commands": [{}]}, "commands[0].site_id"),
        ({"commands": [{"site_id": 1, "command_type": "restart", "miner_id": 1}], "priority": 1}, "commands"),
        ({"commands": [{"site_id": 1, "command_type": "x"}] * 501}, "commands"),
    ],
)
def test_invalid_field_is_named(fleet: MinerFleet, body: Any, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        create(fleet, body)
    assert refused.value.field == field
    assert fleet.count() == 0


def test_repeated_request_with_the_same_key_returns_the_first_result(fleet: MinerFleet) -> None:
    first = create(fleet, one(fleet), "k")
    again = create(fleet, one(fleet), "k")
    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert first.json == again.json
    assert fleet.count() == 1
    assert not create(fleet, one(fleet), "other").is_replayed
    assert not create(fleet, one(fleet), "k", actor="bob").is_replayed
    assert not create(fleet, one(fleet)).is_replayed
    assert fleet.count() == 4


@pytest.mark.parametrize("changed", [{"priority": 1}, {"params": {"reason": "r"}}])
def test_different_request_with_the_same_key_is_refused(fleet: MinerFleet, changed: dict[str, Any]) -> None:
    create(fleet, one(fleet), "k")
    with pytest.raises(KeyReused):
        create(fleet, one(fleet, **changed), "k")
    assert fleet.count() == 1


def test_failed_request_does_not_use_its_key(fleet: MinerFleet) -> None:
    with pytest.raises(BadInput):
        create(fleet, one(fleet, miner_id=99), "k")
    assert not create(fleet, one(fleet), "k").is_replayed
