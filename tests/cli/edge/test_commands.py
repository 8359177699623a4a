from pathlib import Path
from typing import Any

import pytest

from restante.cli.actor import cli_actor
from tests.cli.conftest import Restante


@pytest.fixture
def with_site(restante: Restante) -> Restante:
    """A site with two miners."""
    restante.ok("site", "add", "North")
    for name in ("a", "b"):
        restante.ok("miner", "add", "1", name)
    return restante


def send(with_site: Restante, *args: str) -> Any:
    return with_site.json("commands", "send", "1", "restart", *args)


def test_send_targets_one_many_or_all_miners(with_site: Restante) -> None:
    assert send(with_site, "--miner", "1")["miner_id"] == 1
    many = send(with_site, "--target", "1", "--target", "2")
    assert (many["miner_id"], many["miner_count"]) == (None, 2)
    assert send(with_site, "--all-miners")["miner_count"] == 2
    assert "MINER_RESTART" in with_site.ok("commands", "send", "1", "restart", "--miner", "2")


def test_send_applies_every_option(with_site: Restante) -> None:
    old = send(with_site, "--miner", "1")["command_id"]
    made = send(
        with_site,
        *("--miner", "1", "--params", '{"reason": "r"}', "--priority", "5", "--ttl", "60", "--zone", "1"),
        *("--dedupe-key", "k", "--max-retries", "2", "--supersedes", old),
    )
    shown = with_site.json("commands", "show", made["command_id"])
    assert (shown["priority"], shown["dedupe_key"], shown["max_retries"]) == (5, "k", 2)
    assert shown["params"] == {"reason": "r"}
    assert with_site.json("commands", "show", old)["superseded_by"] == made["command_id"]


def test_send_gives_parameters_the_names_that_collectors_read(with_site: Restante) -> None:
    sent = with_site.json("commands", "send", "1", "set_fan", "--miner", "1", "--params", '{"fan_speed": 60}')
    assert with_site.json("commands", "show", sent["command_id"])["params"] == {"speed": 60}
    line = with_site.error_line("commands", "send", "1", "set_fan", "--miner", "1", "--params", '{"fanspeed": 60}')
    assert line.startswith("params.fanspeed: expected one of the parameters of SET_FAN: speed, reason; did you mean")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "miner_id: expected exactly one of miner_id, target_ids and all_miners"),
        (("--miner", "9"), "miner_id: expected the id of a miner of the site"),
        (("--miner", "1", "--params", "{"), "params: expected a JSON object"),
        (("--miner", "1", "--priority", "-1"), "priority: expected a whole number from 0 to 1000"),
        (("--miner", "1", "--expires-at", "soon"), "--expires-at: expected"),
        (("--miner", "1", "--expires-at", "2001-01-01T00:00:00Z"), "expires_at: expected a time to come"),
    ],
)
def test_invalid_arguments_are_refused(with_site: Restante, args: tuple[str, ...], message: str) -> None:
    assert with_site.error_line("commands", "send", "1", "restart", *args).startswith(message)
    assert with_site.ok("commands", "list") == "No commands.\n"


def test_second_active_command_with_dedupe_key_is_refused(with_site: Restante) -> None:
    first = send(with_site, "--miner", "1", "--dedupe-key", "k")["command_id"]
    assert first in with_site.error_line("commands", "send", "1", "restart", "--miner", "1", "--dedupe-key", "k")


def test_list_applies_filters(with_site: Restante) -> None:
    first = send(with_site, "--miner", "1")["command_id"]
    second = with_site.json("commands", "send", "1", "stop", "--miner", "2")["command_id"]
    for args, found in (
        ((), [second, first]),
        (("--type", "disable"), [second]),
        (("--miner", "1"), [first]),
        (("--site", "9"), []),
        (("--status", "failed"), []),
        (("--by", "nobody"), []),
    ):
        listed = with_site.json("commands", "list", *args)["items"]
        assert [each["command_id"] for each in listed] == found
    shown = with_site.ok("commands", "list", "--limit", "1")
    assert second in shown
    assert "--after 2" in shown
    assert first in with_site.ok("commands", "list", "--after", "2")
    assert with_site.error_line("commands", "list", "--type", "x").startswith("--type: expected one of")


def test_show_cancel_and_why(with_site: Restante) -> None:
    command_id = send(with_site, "--target", "1")["command_id"]
    assert "no collector" in with_site.ok("commands", "why", command_id)
    assert with_site.json("commands", "why", command_id)["waiting_for"] == "no_collector"
    assert with_site.ok("commands", "cancel", command_id, "--reason", "no") == f"{command_id} is cancelled.\n"
    shown = with_site.ok("commands", "show", command_id)
    for word in ("command.created", "command.cancelled", "CANCELLED", '{"target_ids":[1]}', "many"):
        assert word in shown + with_site.ok("commands", "list")
    assert with_site.error_line("commands", "cancel", command_id) == "the command has ended: it is cancelled"
    assert "ended cancelled" in with_site.ok("commands", "why", command_id)


@pytest.mark.parametrize("command", ["show", "why", "cancel", "approve", "deny"])
def test_unknown_command_is_refused(restante: Restante, command: str) -> None:
    assert restante.error_line("commands", command, "cmd_none") == "There is no such command."


def test_approve_and_deny(with_site: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_COMMANDS_NEEDING_APPROVAL", "MINER_RESTART")
    assert "waits for approval" in with_site.ok("commands", "send", "1", "restart", "--miner", "1")
    first, second = send(with_site, "--miner", "1")["command_id"], send(with_site, "--miner", "1")["command_id"]
    for actor in ("cli:me", "cli:somebody-else"):
        monkeypatch.setattr("restante.cli.edge.commands.cli_actor", lambda actor=actor: actor)
        message = with_site.error_line("commands", "approve", first)
        assert message.startswith("approval needs a signed-in person")
        assert message.endswith(f"POST /api/edge/v1/admin/commands/{first}/approve")
    assert with_site.json("commands", "deny", second, "--reason", "no") == {"command_id": second, "status": "cancelled"}
    assert with_site.json("commands", "show", first)["status"] == "pending_approval"


def test_policy_is_shown_and_changed(with_site: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_site.json("commands", "policy") == {
        "command_types": [], "miners_from": None, "window_seconds": 3600, "changed_at": None, "changed_by": None,
    }  # fmt: skip
    changed = with_site.json("commands", "policy", "--type", "restart", "--from-miners", "20", "--window", "60")
    assert (changed["command_types"], changed["miners_from"], changed["window_seconds"]) == (["MINER_RESTART"], 20, 60)
    assert changed["changed_by"] == cli_actor()
    # The environment of a shell does not replace the stored policy.
    monkeypatch.setenv("RESTANTE_COMMANDS_NEEDING_APPROVAL", "POOL_SET")
    assert "waits for approval" in with_site.ok("commands", "send", "1", "restart", "--miner", "1")
    cleared = with_site.json("commands", "policy", "--no-types", "--from-miners", "0")
    assert (cleared["command_types"], cleared["miners_from"]) == ([], None)
    assert "never" in with_site.ok("commands", "policy")
    events = [row["event"] for row in with_site.json("audit", "list")["items"]]
    assert events.count("approval.policy_changed") == 2
    refused = with_site.error_line("commands", "policy", "--type", "NONSENSE")
    assert refused.startswith("command_types: expected ")


def test_params_are_read_from_a_file_or_stdin(with_site: Restante, tmp_path: Path) -> None:
    text = '{"pool_url": "stratum+tcp://p:1", "pool_password": "hunter2"}'
    file = tmp_path / "params.json"
    file.write_text(text)
    for given, stdin in ((f"@{file}", None), ("-", text)):
        arguments = ("commands", "send", "1", "POOL_SET", "--miner", "1", "--params", given)
        created = with_site.json(*arguments, stdin=stdin)
        shown = with_site.json("commands", "show", created["command_id"])
        assert shown["params"] == {"pool_password": "[secret]", "pool_url": "stratum+tcp://p:1"}
    refused = with_site("commands", "send", "1", "POOL_SET", "--miner", "1", "--params", "@missing.json")
    assert refused.exit_code == 2
    assert "cannot read missing.json" in refused.stderr
