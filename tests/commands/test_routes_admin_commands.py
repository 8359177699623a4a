import asyncio
from typing import Any

import pytest

from restante.commands.approval import ApprovalRules
from restante.commands.creation import CreationOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.database import Database
from restante.identity.callers import Role
from tests.commands.operators import Office, World, error_of, field_of, open_office
from tests.conftest import ManualClock

OPTIONS = CreationOptions(
    rate_rules=RateRules({"MINER_RESTART": RateLimit(1, 300)}),
    approval=ApprovalRules(frozenset({"DEVICE_REBOOT"}), miners_from=3),
)


@pytest.fixture
async def office(database: Database, clock: ManualClock) -> Office:
    return await open_office(World(database, clock, OPTIONS))


async def test_make_one_and_look_at_it(office: Office) -> None:
    answer = await office.create(command_type="restart", params={"reason": "ü"}, ttl_sec=60)
    assert answer.status_code == 201
    made = answer.json()
    assert (made["status"], made["command_type"]) == ("pending", "MINER_RESTART")
    assert made["expires_at"] == "2027-01-15T08:01:00Z"
    shown = (await office.call("GET", f"/commands/{made['command_id']}", role=Role.viewer)).json()
    assert (shown["params"], shown["created_by"]) == ({"reason": "ü"}, "key:operator")
    assert [row["event"] for row in shown["history"]] == ["command.created"]
    listed = (await office.call("GET", "/commands?status=pending&command_type=restart", role=Role.viewer)).json()
    assert ([each["command_id"] for each in listed["items"]], listed["next"]) == ([made["command_id"]], None)


async def test_make_many(office: Office) -> None:
    body = {"commands": [office.command(), office.command(miner_id=..., all_miners=True)]}
    answer = await office.call("POST", "/commands", body, role=Role.operator)
    assert answer.status_code == 201
    assert [each["status"] for each in answer.json()["commands"]] == ["pending", "pending_approval"]
    assert answer.json()["count"] == 2


PARAMS = (
    *(b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1.5}', b'{"a": 9007199254740993}', b'{"a": "\\ud800"}'),
    *(b'{"a": 1, "a": 2}', b'{"a": ' + b"[" * 16 + b"]" * 16 + b"}", b'{"a": "' + b"x" * 16384 + b'"}', b"[]"),
)


@pytest.mark.parametrize("params", PARAMS, ids=lambda params: str(params[:20]))
async def test_parameters_that_cannot_be_signed_are_refused(office: Office, params: bytes) -> None:
    content = b'{"site_id": 1, "command_type": "restart", "miner_id": 1, "params": %b}' % params
    answer = await office.call("POST", "/commands", content=content, role=Role.operator)
    assert error_of(answer) == (400, "INVALID_REQUEST")
    assert office.world.count() == 0


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"command_type": "SELF_DESTRUCT"}, "command_type"),
        ({"command_type": "SET_FAN"}, "params.speed"),
        ({"site_id": 99}, "site_id"),
        ({"miner_id": 99}, "miner_id"),
        ({"miner_id": ...}, "miner_id"),
        ({"priority": 1.5}, "priority"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
async def test_what_is_wrong_is_named(office: Office, changed: dict[str, Any], field: str) -> None:
    assert field_of(await office.create(**changed)) == field


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"site_id": "\xff"}', b"[" * 100_000])
async def test_what_is_no_request(office: Office, content: bytes) -> None:
    answer = await office.call("POST", "/commands", content=content, role=Role.operator)
    assert error_of(answer) == (400, "INVALID_REQUEST")


async def test_an_idempotency_key(office: Office) -> None:
    async def send(key: str, **changed: Any) -> Any:
        body, headers = office.command(**changed), {"Idempotency-Key": key}
        return await office.call("POST", "/commands", body, role=Role.operator, headers=headers)

    first, again = await send("k"), await send("k")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert [answer.headers.get("idempotency-replayed") for answer in (first, again)] == [None, "true"]
    assert error_of(await send("k", priority=1)) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert field_of(await send("x" * 256)) == "Idempotency-Key"
    assert office.world.count() == 1


async def test_of_fifty_equal_keys_at_once_one_is_made(office: Office) -> None:
    answers = await asyncio.gather(*(office.create(dedupe_key="k") for _ in range(50)))
    made = [answer.json()["command_id"] for answer in answers if answer.status_code == 201]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert len(made) == 1
    assert {error_of(answer) for answer in refused} == {(409, "DUPLICATE_ACTIVE")}
    assert {answer.json()["command_id"] for answer in refused} == set(made)


async def test_over_the_rate_limit(office: Office) -> None:
    await office.create(command_type="restart")
    assert len(office.world.claim(office.world.add_collector())) == 1
    answer = await office.create(command_type="restart")
    assert error_of(answer) == (429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == "300"


async def test_cancel(office: Office) -> None:
    command_id = (await office.create()).json()["command_id"]
    answer = await office.call("POST", f"/commands/{command_id}/cancel", {"reason": "no"}, role=Role.operator)
    assert (answer.status_code, answer.json()["status"], answer.json()["result_message"]) == (200, "cancelled", "no")
    again = await office.call("POST", f"/commands/{command_id}/cancel", role=Role.operator)
    assert error_of(again) == (409, "COMMAND_FINISHED")
    assert again.json()["command_status"] == "cancelled"


async def test_a_body_is_not_needed_to_cancel_or_deny(office: Office) -> None:
    for path in ("cancel", "deny"):
        command_id = (await office.create(command_type="DEVICE_REBOOT")).json()["command_id"]
        answer = await office.call("POST", f"/commands/{command_id}/{path}", content=b"")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


async def test_approve_and_deny(office: Office) -> None:
    command_id = (await office.create(command_type="DEVICE_REBOOT")).json()["command_id"]
    approve = f"/commands/{command_id}/approve"
    assert error_of(await office.call("POST", approve, role=Role.operator)) == (403, "FORBIDDEN")
    answer = await office.call("POST", approve, role=Role.approver)
    assert (answer.json()["status"], answer.json()["approved_by"]) == ("pending", "key:approver")
    assert error_of(await office.call("POST", approve, role=Role.approver)) == (409, "CONFLICT")
    other = (await office.create(command_type="DEVICE_REBOOT")).json()["command_id"]
    denied = await office.call("POST", f"/commands/{other}/deny", {"reason": "no"}, role=Role.approver)
    assert (denied.json()["status"], denied.json()["result_code"]) == ("cancelled", "DENIED")


@pytest.mark.parametrize("role", [Role.approver, Role.admin])
async def test_the_maker_cannot_approve_whatever_their_role(office: Office, role: Role) -> None:
    command_id = (await office.create(role, command_type="DEVICE_REBOOT")).json()["command_id"]
    answer = await office.call("POST", f"/commands/{command_id}/approve", role=role)
    assert error_of(answer) == (403, "FORBIDDEN")


async def test_people_act_under_their_own_name(office: Office) -> None:
    answer = await office.as_person(Role.operator, "POST", "/commands", office.command())
    assert answer.status_code == 201
    shown = await office.call("GET", f"/commands/{answer.json()['command_id']}")
    assert shown.json()["created_by"] == "operator@example.com"


async def test_why(office: Office) -> None:
    command_id = (await office.create()).json()["command_id"]
    answer = await office.call("GET", f"/commands/{command_id}/why", role=Role.viewer)
    assert (answer.status_code, answer.json()["waiting_for"]) == (200, "no_collector")
    assert answer.json()["sentence"].endswith(".")


@pytest.mark.parametrize("path", ["", "/why", "/cancel", "/approve", "/deny"])
@pytest.mark.parametrize("command_id", ["cmd_none", "1", "%00", "..%2f", "ü"])
async def test_there_must_be_such_a_command(office: Office, path: str, command_id: str) -> None:
    method = "GET" if path in ("", "/why") else "POST"
    answer = await office.call(method, f"/commands/{command_id}{path}")
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "query",
    [*("status=done", "command_type=x", "site_id=x", "miner_id=0", "limit=0", "limit=501", "after=x", "rule_id=-1")],
)
async def test_filters_are_checked(office: Office, query: str) -> None:
    assert field_of(await office.call("GET", f"/commands?{query}")) == query.partition("=")[0]
