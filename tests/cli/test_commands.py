from typing import Any

import pytest

from tests.cli.conftest import Restante


@pytest.fixture
def north(restante: Restante) -> Restante:
    """A site with two miners."""
    restante.ok("site", "add", "North")
    for name in ("a", "b"):
        restante.ok("miner", "add", "1", name)
    return restante


def send(north: Restante, *args: str) -> Any:
    return north.json("commands", "send", "1", "restart", *args)


def test_send_to_one_many_and_all(north: Restante) -> None:
    assert send(north, "--miner", "1")["miner_id"] == 1
    many = send(north, "--target", "1", "--target", "2")
    assert (many["miner_id"], many["miner_count"]) == (None, 2)
    assert send(north, "--all-miners")["miner_count"] == 2
    assert "MINER_RESTART" in north.ok("commands", "send", "1", "restart", "--miner", "2")


def test_send_with_everything(north: Restante) -> None:
    old = send(north, "--miner", "1")["command_id"]
    made = send(
        north,
        *("--miner", "1", "--params", '{"reason": "r"}', "--priority", "5", "--ttl", "60", "--zone", "1"),
        *("--dedupe-key", "k", "--max-retries", "2", "--supersedes", old),
    )
    shown = north.json("commands", "show", made["command_id"])
    assert (shown["priority"], shown["dedupe_key"], shown["max_retries"]) == (5, "k", 2)
    assert shown["params"] == {"reason": "r"}
    assert north.json("commands", "show", old)["superseded_by"] == made["command_id"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "miner_id: expected exactly one of miner_id, target_ids and all_miners"),
        (("--miner", "9"), "miner_id: expected the id of a miner of the site"),
        (("--miner", "1", "--params", "{"), "params: expected a JSON object"),
        (("--miner", "1", "--priority", "-1"), "priority: expected a whole number from 0 to 1000"),
        (("--miner", "1", "--expires-at", "soon"), "--expires-at: expected"),
        (("--miner", "1", "--expires-at", "2001-01-01T00:00:00Z"), "expires_at: expected a time to come"),
    ],
)
def test_what_is_wrong_is_said(north: Restante, args: tuple[str, ...], said: str) -> None:
    assert north.complaint("commands", "send", "1", "restart", *args).startswith(said)
    assert north.ok("commands", "list") == "No commands.\n"


def test_a_second_with_the_key_is_refused(north: Restante) -> None:
    first = send(north, "--miner", "1", "--dedupe-key", "k")["command_id"]
    assert first in north.complaint("commands", "send", "1", "restart", "--miner", "1", "--dedupe-key", "k")


def test_list_with_filters(north: Restante) -> None:
    first = send(north, "--miner", "1")["command_id"]
    second = north.json("commands", "send", "1", "stop", "--miner", "2")["command_id"]
    for args, found in (
        ((), [second, first]),
        (("--type", "disable"), [second]),
        (("--miner", "1"), [first]),
        (("--site", "9"), []),
        (("--status", "failed"), []),
        (("--by", "nobody"), []),
    ):
        listed = north.json("commands", "list", *args)["items"]
        assert [each["command_id"] for each in listed] == found
    shown = north.ok("commands", "list", "--limit", "1")
    assert second in shown
    assert "--after 2" in shown
    assert first in north.ok("commands", "list", "--after", "2")
    assert north.complaint("commands", "list", "--type", "x").startswith("--type: expected one of")


def test_show_cancel_and_why(north: Restante) -> None:
    command_id = send(north, "--target", "1")["command_id"]
    assert "no collector" in north.ok("commands", "why", command_id)
    assert north.json("commands", "why", command_id)["waiting_for"] == "no_collector"
    assert north.ok("commands", "cancel", command_id, "--reason", "no") == f"{command_id} is cancelled.\n"
    shown = north.ok("commands", "show", command_id)
    for word in ("command.created", "command.cancelled", "CANCELLED", '{"target_ids":[1]}', "many"):
        assert word in shown + north.ok("commands", "list")
    assert north.complaint("commands", "cancel", command_id) == "the command has ended: it is cancelled"
    assert "ended cancelled" in north.ok("commands", "why", command_id)


@pytest.mark.parametrize("command", ["show", "why", "cancel", "approve", "deny"])
def test_there_must_be_such_a_command(restante: Restante, command: str) -> None:
    assert restante.complaint("commands", command, "cmd_none") == "There is no such command."


def test_approve_and_deny(north: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_COMMANDS_NEEDING_APPROVAL", "MINER_RESTART")
    assert "waits for approval" in north.ok("commands", "send", "1", "restart", "--miner", "1")
    first, second = send(north, "--miner", "1")["command_id"], send(north, "--miner", "1")["command_id"]
    assert north.complaint("commands", "approve", first) == "whoever made a command cannot approve it"
    monkeypatch.setattr("restante.cli.commands.actor", lambda: "cli:somebody-else")
    assert north.ok("commands", "approve", first) == f"{first} is approved.\n"
    assert north.json("commands", "deny", second, "--reason", "no") == {"command_id": second, "status": "cancelled"}
    assert north.json("commands", "show", first)["approved_by"] == "cli:somebody-else"
