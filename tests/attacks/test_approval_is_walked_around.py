"""Attack: get many miners restarted, or a dangerous command dispatched, without a second person."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from restante.commands.lifecycle import approval_policy, makers
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.rules.rule_actions import RuleActions
from restante.commands.rules.rule_state import ActiveRule, MinerRuleState
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.grants import Role
from restante.identity.people import sessions, users
from restante.server.config.options import commands_options
from restante.server.config.setting_types import CommaList
from restante.web.access import SESSION_COOKIE
from tests.identity.people_and_devices import SESSION_SECONDS
from tests.server.live_server import LiveServer

EDGE = "/api/edge/v1/admin"
MINERS = 8
LIMIT = 4
_RULE = Query("rule", "SELECT * FROM automation_rules WHERE id = :rule_id")
_WAIT = Query("wait", "UPDATE command_makers SET at = at - :ms")


class Server:
    """A server whose policy holds commands for LIMIT miners, and commands of the type DEVICE_REBOOT."""

    def __init__(self, folder: Path) -> None:
        self._clients: list[httpx.Client] = []
        reboot = CommaList(["DEVICE_REBOOT"])
        self.live = LiveServer(folder, has_services=False, commands_needing_approval=reboot, approval_from_miners=LIMIT)
        self.database = self.live.node.database
        self.live.wait_for(self.live.node.commands.start())
        self.admin_id, self.admin = self.person(Role.admin)
        self.site_id = self.post(self.admin, "/sites", {"name": "north"})["id"]
        self.miners = [
            self.post(self.admin, "/miners", {"site_id": self.site_id, "name": f"m{number}"})["id"]
            for number in range(MINERS)
        ]

    def person(self, role: Role = Role.approver) -> tuple[int, httpx.Client]:
        user_id = self.database.write_now(users.add, f"{uuid4()}@example.com", "x", role)
        token = self.database.write_now(sessions.start, user_id, SESSION_SECONDS)
        return user_id, self._client(cookies={SESSION_COOKIE: token})

    def key(self, role: Role = Role.approver) -> httpx.Client:
        _, key = self.database.write_now(api_keys.create, str(uuid4()), role)
        return self.client_with(key)

    def client_with(self, key: str) -> httpx.Client:
        return self._client(headers={"authorization": f"Bearer {key}"})

    def _client(self, **options: Any) -> httpx.Client:
        client = httpx.Client(base_url=f"http://127.0.0.1:{self.live.fast_port}", timeout=30, **options)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.live.close()

    def post(self, client: httpx.Client, path: str, body: Any) -> Any:
        response = client.post(EDGE + path, json=body)
        assert response.status_code == 201, response.text
        return response.json()

    def command(self, place: int, command_type: str = "MINER_RESTART") -> dict[str, Any]:
        return {"site_id": self.site_id, "miner_id": self.miners[place], "command_type": command_type}

    def send(self, client: httpx.Client, *places: int, command_type: str = "MINER_RESTART") -> list[str]:
        """The states of commands that are created one after another."""
        return [self.post(client, "/commands", self.command(place, command_type))["status"] for place in places]

    def approve(self, client: httpx.Client, command_id: str) -> int:
        return client.post(f"{EDGE}/commands/{command_id}/approve").status_code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("approval"))
    yield server
    server.close()


def test_single_miner_commands_in_one_request_count_together(server: Server) -> None:
    _, maker = server.person()
    body = {"commands": [server.command(place) for place in range(LIMIT)]}
    created = server.post(maker, "/commands", body)["commands"]
    assert {command["status"] for command in created} == {"pending_approval"}
    few = server.post(server.person()[1], "/commands", {"commands": [server.command(0), server.command(1)]})
    assert {command["status"] for command in few["commands"]} == {"pending"}


def test_commands_in_sequence_count_together_within_the_window(server: Server) -> None:
    _, maker = server.person()
    assert server.send(maker, 0, 1, 2) == ["pending"] * 3
    assert server.send(maker, 3, 4) == ["pending_approval"] * 2
    # Another type, and another person, count for themselves.
    assert server.send(maker, 5, command_type="HASHING_ENABLE") == ["pending"]
    assert server.send(server.person()[1], 5) == ["pending"]
    server.database.write_now(lambda conn: conn.run(_WAIT, ms=3_600_000))
    assert server.send(maker, 6) == ["pending"]


def test_same_miner_counts_once_and_lists_of_miners_in_full(server: Server) -> None:
    _, maker = server.person()
    assert server.send(maker, 0, 0, 0, 0, 1, 2) == ["pending"] * 6
    _, other = server.person()
    few = {"site_id": server.site_id, "target_ids": server.miners[:2], "command_type": "MINER_RESTART"}
    assert [server.post(other, "/commands", few)["status"] for _ in range(2)] == ["pending", "pending_approval"]


def test_several_keys_of_one_person_count_together(server: Server) -> None:
    user_id, person = server.person(Role.admin)
    body = {"name": "bot", "grants": [{"role": "operator", "scope": "commands"}]}
    created = [person.post("/apiv1/keys", json=body).json()["data"]["token"] for _ in range(2)]
    one, two = (server.client_with(token) for token in created)
    assert server.send(one, 0, 1) + server.send(two, 2) == ["pending"] * 3
    assert server.send(two, 3) + server.send(one, 4) == ["pending_approval"] * 2
    waiting = person.get(f"{EDGE}/commands", params={"status": "pending_approval"}).json()["items"][0]
    assert server.approve(person, waiting["command_id"]) == 403
    assert f"person:{user_id}" in server.database.read_now(makers.of_command, waiting["command_id"])


def test_commands_at_once_count_one_after_another(server: Server) -> None:
    _, maker = server.person()
    states: list[str] = []
    cookies = dict(maker.cookies)

    def send(place: int) -> None:
        response = httpx.post(
            f"http://127.0.0.1:{server.live.fast_port}{EDGE}/commands",
            json=server.command(place),
            cookies=cookies,
            timeout=30,
        )
        states.append(response.json()["status"])

    threads = [threading.Thread(target=send, args=(place,)) for place in range(MINERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states.count("pending") == LIMIT - 1


def test_key_does_not_approve_and_neither_does_the_maker(server: Server) -> None:
    _, maker = server.person(Role.admin)
    command_id = server.post(maker, "/commands", server.command(0, "DEVICE_REBOOT"))["command_id"]
    assert server.approve(server.key(Role.admin), command_id) == 403
    assert server.approve(maker, command_id) == 403
    assert server.approve(server.person(Role.operator)[1], command_id) == 403
    assert server.approve(server.person()[1], command_id) == 200


@pytest.mark.parametrize("edit", ["create", "replace", "change", "disable", "enable"])
def test_author_and_editors_of_a_rule_do_not_approve_its_commands(server: Server, edit: str) -> None:
    rule = {
        "name": "reboot", "site_id": server.site_id, "trigger_type": "threshold", "trigger_metric": "temp_max",
        "trigger_operator": ">", "trigger_value": 90, "action_type": "DEVICE_REBOOT",
    }  # fmt: skip
    _, author = server.person()
    _, editor = server.person()
    rule_id = server.post(author, "/rules", rule)["id"]
    path = f"{EDGE}/rules/{rule_id}"
    requests: dict[str, Any] = {
        "create": lambda: httpx.Response(200),
        "replace": lambda: editor.put(path, json=rule),
        "change": lambda: editor.patch(path, json={"trigger_value": 91}),
        "disable": lambda: editor.post(f"{path}/disable"),
        "enable": lambda: editor.post(f"{path}/enable"),
    }
    assert requests[edit]().status_code == 200
    command_id = fire(server, rule_id)
    assert server.approve(author, command_id) == 403
    assert server.approve(editor, command_id) == (200 if edit == "create" else 403)
    if edit != "create":
        assert server.approve(server.person()[1], command_id) == 200


def fire(server: Server, rule_id: int) -> str:
    """Let the rule fire for a miner; return its command, which waits for approval."""
    commands = server.live.node.commands
    actions = RuleActions(commands.trail, commands_options(server.live.node.settings).for_creation(commands.box))

    def fire_in(conn: Connection) -> str | None:
        row = conn.one(_RULE, rule_id=rule_id)
        assert row is not None
        state = MinerRuleState(ActiveRule.of(row), server.miners[0])
        assert actions.fire(conn, state)
        return state.last_command_id

    command_id = server.database.write_now(fire_in)
    shown = server.admin.get(f"{EDGE}/commands/{command_id}").json()
    assert shown["status"] == "pending_approval"
    return str(command_id)


def test_commands_of_a_rule_count_for_its_author(server: Server) -> None:
    author_id, author = server.person()
    rule = {
        "name": "restart", "site_id": server.site_id, "trigger_type": "offline", "trigger_duration_seconds": 600,
        "action_type": "MINER_RESTART",
    }  # fmt: skip
    rule_id = server.post(author, "/rules", rule)["id"]
    assert server.send(author, 0, 1, 2) == ["pending"] * 3
    server_miners, server.miners = server.miners, server.miners[3:]
    try:
        command_id = fire(server, rule_id)
    finally:
        server.miners = server_miners
    assert f"person:{author_id}" in server.database.read_now(makers.of_command, command_id)


def test_policy_is_stored_once_and_changed_only_by_administrators(server: Server) -> None:
    """Not by the environment of another process."""
    policy = server.admin.get(f"{EDGE}/approval-policy").json()
    assert (policy["command_types"], policy["miners_from"], policy["window_seconds"]) == (
        ["DEVICE_REBOOT"],
        LIMIT,
        3600,
    )
    assert policy["changed_by"] == "restante"
    trail = server.live.node.commands.trail
    server.database.write_now(approval_policy.store_initial, trail, ApprovalRules(miners_from=1000))
    assert server.database.read_now(approval_policy.rules, ApprovalRules()).miners_from == LIMIT
    new = {"command_types": ["power_off"], "miners_from": None, "window_seconds": 60}
    assert server.person(Role.approver)[1].put(f"{EDGE}/approval-policy", json=new).status_code == 403
    unknown = server.admin.put(f"{EDGE}/approval-policy", json={**new, "command_types": ["NONSENSE"]})
    assert (unknown.status_code, unknown.json()["message"].split(":")[0]) == (400, "command_types")
    changed = server.admin.put(f"{EDGE}/approval-policy", json={**new, "command_types": ["restart"]})
    assert (changed.status_code, changed.json()["command_types"]) == (200, ["MINER_RESTART"])
    assert server.send(server.person()[1], 0) == ["pending_approval"]
    back = {"command_types": ["DEVICE_REBOOT"], "miners_from": LIMIT, "window_seconds": 3600}
    server.admin.put(f"{EDGE}/approval-policy", json=back).raise_for_status()
    rows = server.admin.get(f"{EDGE}/audit", params={"event": "approval.policy_changed"}).json()["items"]
    assert [row["detail"]["after"] for row in rows][:1] == [back]
    imported = server.admin.get(f"{EDGE}/audit", params={"event": "approval.policy_imported"}).json()["items"]
    assert len(imported) == 1


def test_makers_are_deleted_when_they_no_longer_count(server: Server) -> None:
    _, maker = server.person()
    waiting = server.post(maker, "/commands", server.command(0, "DEVICE_REBOOT"))["command_id"]
    sent = server.post(maker, "/commands", server.command(0))["command_id"]
    server.database.write_now(lambda conn: conn.run(_WAIT, ms=makers.WINDOW_SECONDS_MAX * 1000 + 1000))
    server.database.write_now(makers.delete_old)
    assert server.database.read_now(makers.of_command, sent) == set()
    assert server.database.read_now(makers.of_command, waiting) != set()
    assert server.approve(maker, waiting) == 403
