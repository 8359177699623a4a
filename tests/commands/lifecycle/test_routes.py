import asyncio
from typing import Any

import pytest

from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.lifecycle.approval import ApprovalRules
from restante.database.database import Database
from restante.identity.callers import Role
from tests.commands.operator_fixture import (
    MinerFleet,
    OperatorApi,
    creation_options,
    error_of,
    field_of,
    open_operator_api,
)
from tests.conftest import ManualClock

OPTIONS = creation_options(
    rate_rules=RateRules({"MINER_RESTART": RateLimit(1, 300)}),
    approval=ApprovalRules(frozenset({"DEVICE_REBOOT"}), miners_from=3),
)


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> OperatorApi:
    return await open_operator_api(MinerFleet(database, clock, OPTIONS))


async def test_command_is_created_shown_and_listed(api: OperatorApi) -> None:
    response = await api.create(command_type="restart", params={"reason": "ü"}, ttl_sec=60)
    assert response.status_code == 201
    created = response.json()
    assert (created["status"], created["command_type"]) == ("pending", "MINER_RESTART")
    assert created["expires_at"] == "2027-01-15T08:01:00.000Z"
    view = (await api.call("GET", f"/commands/{created['command_id']}", role=Role.viewer)).json()
    assert (view["params"], view["created_by"]) == ({"reason": "ü"}, "key:operator")
    assert [row["event"] for row in view["history"]] == ["command.created"]
    listed = (await api.call("GET", "/commands?status=pending&command_type=restart", role=Role.viewer)).json()
    assert ([each["command_id"] for each in listed["items"]], listed["next"]) == ([created["command_id"]], None)


async def test_many_commands_are_created(api: OperatorApi) -> None:
    body = {"commands": [api.command(), api.command(miner_id=..., all_miners=True)]}
    response = await api.call("POST", "/commands", body, role=Role.operator)
    assert response.status_code == 201
    # Together they are for many miners.
    assert [each["status"] for each in response.json()["commands"]] == ["pending_approval", "pending_approval"]
    assert response.json()["count"] == 2


PARAMS = (
    *(b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1.5}', b'{"a": 9007199254740993}', b'{"a": "\\ud800"}'),
    *(b'{"a": 1, "a": 2}', b'{"a": ' + b"[" * 16 + b"]" * 16 + b"}", b'{"a": "' + b"x" * 16384 + b'"}', b"[]"),
)


@pytest.mark.parametrize("params", PARAMS, ids=lambda params: str(params[:20]))
async def test_parameters_that_cannot_be_signed_are_refused(api: OperatorApi, params: bytes) -> None:
    content = b'{"site_id": 1, "command_type": "restart", "miner_id": 1, "params": %b}' % params
    response = await api.call("POST", "/commands", content=content, role=Role.operator)
    assert error_of(response) == (400, "INVALID_REQUEST")
    assert api.fleet.count() == 0


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
async def test_invalid_field_is_named(api: OperatorApi, changed: dict[str, Any], field: str) -> None:
    assert field_of(await api.create(**changed)) == field


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"site_id": "\xff"}', b"[" * 100_000])
async def test_malformed_body_is_refused(api: OperatorApi, content: bytes) -> None:
    response = await api.call("POST", "/commands", content=content, role=Role.operator)
    assert error_of(response) == (400, "INVALID_REQUEST")


async def test_idempotency_key_replays_the_response(api: OperatorApi) -> None:
    async def send(key: str, **changed: Any) -> Any:
        body, headers = api.command(**changed), {"Idempotency-Key": key}
        return await api.call("POST", "/commands", body, role=Role.operator, headers=headers)

    first, again = await send("k"), await send("k")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert [response.headers.get("idempotency-replayed") for response in (first, again)] == [None, "true"]
    assert error_of(await send("k", priority=1)) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert field_of(await send("x" * 256)) == "Idempotency-Key"
    assert api.fleet.count() == 1


async def test_one_of_fifty_concurrent_requests_with_the_same_dedupe_key_succeeds(api: OperatorApi) -> None:
    responses = await asyncio.gather(*(api.create(dedupe_key="k") for _ in range(50)))
    created = [response.json()["command_id"] for response in responses if response.status_code == 201]
    refused = [response for response in responses if response.status_code != 201]
    assert len(created) == 1
    assert {error_of(response) for response in refused} == {(409, "DUPLICATE_ACTIVE")}
    assert {response.json()["command_id"] for response in refused} == set(created)


async def test_command_over_the_rate_limit_is_refused(api: OperatorApi) -> None:
    await api.create(command_type="restart")
    assert len(api.fleet.claim(api.fleet.add_collector())) == 1
    response = await api.create(command_type="restart")
    assert error_of(response) == (429, "RATE_LIMITED")
    assert response.headers["retry-after"] == "300"


async def test_command_is_cancelled_once(api: OperatorApi) -> None:
    command_id = (await api.create()).json()["command_id"]
    response = await api.call("POST", f"/commands/{command_id}/cancel", {"reason": "no"}, role=Role.operator)
    assert (response.status_code, response.json()["status"], response.json()["result_message"]) == (
        200,
        "cancelled",
        "no",
    )
    again = await api.call("POST", f"/commands/{command_id}/cancel", role=Role.operator)
    assert error_of(again) == (409, "COMMAND_FINISHED")
    assert again.json()["command_status"] == "cancelled"


async def test_cancel_and_deny_need_no_body(api: OperatorApi) -> None:
    for path in ("cancel", "deny"):
        command_id = (await api.create(command_type="DEVICE_REBOOT")).json()["command_id"]
        response = await api.call("POST", f"/commands/{command_id}/{path}", content=b"")
        assert (response.status_code, response.json()["status"]) == (200, "cancelled")


async def test_approver_approves_and_denies(api: OperatorApi) -> None:
    command_id = (await api.create(command_type="DEVICE_REBOOT")).json()["command_id"]
    approve = f"/commands/{command_id}/approve"
    assert error_of(await api.call("POST", approve, role=Role.operator)) == (403, "FORBIDDEN")
    assert error_of(await api.call("POST", approve, role=Role.approver)) == (403, "FORBIDDEN")
    response = await api.as_user(Role.approver, "POST", approve)
    assert (response.json()["status"], response.json()["approved_by"]) == ("pending", "approver@example.com")
    assert error_of(await api.as_user(Role.approver, "POST", approve)) == (409, "CONFLICT")
    other = (await api.create(command_type="DEVICE_REBOOT")).json()["command_id"]
    denied = await api.call("POST", f"/commands/{other}/deny", {"reason": "no"}, role=Role.approver)
    assert (denied.json()["status"], denied.json()["result_code"]) == ("cancelled", "DENIED")


@pytest.mark.parametrize("role", [Role.approver, Role.admin])
async def test_creator_cannot_approve_in_any_role(api: OperatorApi, role: Role) -> None:
    created = await api.as_user(role, "POST", "/commands", api.command(command_type="DEVICE_REBOOT"))
    response = await api.as_user(role, "POST", f"/commands/{created.json()['command_id']}/approve")
    assert error_of(response) == (403, "FORBIDDEN")
    assert "another person must approve it" in response.json()["message"]


async def test_user_is_recorded_as_creator(api: OperatorApi) -> None:
    response = await api.as_user(Role.operator, "POST", "/commands", api.command())
    assert response.status_code == 201
    view = await api.call("GET", f"/commands/{response.json()['command_id']}")
    assert view.json()["created_by"] == "operator@example.com"


async def test_explanation_is_returned(api: OperatorApi) -> None:
    command_id = (await api.create()).json()["command_id"]
    response = await api.call("GET", f"/commands/{command_id}/why", role=Role.viewer)
    assert (response.status_code, response.json()["waiting_for"]) == (200, "no_collector")
    assert response.json()["sentence"].endswith(".")


@pytest.mark.parametrize("path", ["", "/why", "/cancel", "/approve", "/deny"])
@pytest.mark.parametrize("command_id", ["cmd_none", "1", "%00", "..%2f", "ü"])
async def test_missing_command_is_not_found(api: OperatorApi, path: str, command_id: str) -> None:
    method = "GET" if path in ("", "/why") else "POST"
    if path == "/approve":
        response = await api.as_user(Role.approver, method, f"/commands/{command_id}{path}")
    else:
        response = await api.call(method, f"/commands/{command_id}{path}")
    assert response.status_code == 404


@pytest.mark.parametrize(
    "query",
    [*("status=done", "command_type=x", "site_id=x", "miner_id=0", "limit=0", "limit=501", "after=x", "rule_id=-1")],
)
async def test_invalid_filter_is_named(api: OperatorApi, query: str) -> None:
    assert field_of(await api.call("GET", f"/commands?{query}")) == query.partition("=")[0]
