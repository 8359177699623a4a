import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Restante

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "command-signatures.json").read_text())


@pytest.fixture
def miner(remote: Restante, request: pytest.FixtureRequest) -> tuple[str, str]:
    """The ids of a new site and of a miner there."""
    site = str(remote.json("site", "create", request.node.name[:60])["id"])
    return site, str(remote.json("miner", "create", site, "m")["id"])


def test_command_is_made_found_by_prefix_explained_and_cancelled(remote: Restante, miner: tuple[str, str]) -> None:
    site, miner_id = miner
    made = remote.json("command", "create", site, "restart", "--miner", miner_id, "--ttl", "10m")
    command_id = made["command_id"]
    assert made["command_type"] == "MINER_RESTART"
    shown = remote.json("command", "show", command_id[:12])
    assert (shown["command_id"], shown["created_by"].partition(":")[0]) == (command_id, "local")
    assert "command.created" in remote.ok("command", "show", command_id)
    assert "no collector" in remote.ok("command", "why", command_id[:12])
    cancelled = remote.json("command", "cancel", command_id[:12], "--reason", "typo")
    assert cancelled["status"] == "cancelled"
    assert remote.items("command", "list", "--site", site, "--status", "CANCELLED")[0]["result_message"] == "typo"
    assert remote.items("command", "list", "--site", site, "--since", "1h")
    assert remote.items("command", "list", "--site", site, "--since", "2200-01-01T00:00:00Z") == []


def test_expiry_is_exactly_the_lifetime_after_the_creation(remote: Restante, miner: tuple[str, str]) -> None:
    made = remote.json("command", "create", miner[0], "restart", "--miner", miner[1], "--ttl", "3600")
    # The expiry is signed in whole seconds.
    made_minute, expiry_minute = made["created_at"].partition(":")[2], made["expires_at"].partition(":")[2]
    assert (made_minute[:5], expiry_minute[5:]) == (expiry_minute[:5], ".000Z")


def test_command_for_all_miners_asks_with_the_count(remote: Restante, miner: tuple[str, str]) -> None:
    remote.ok("miner", "create", miner[0], "m2")
    send = ("command", "create", miner[0], "HASHING_DISABLE", "--all-miners")
    assert f"to all 2 miners of site {miner[0]}." in remote.error_line(*send)
    assert "Would do" in remote.ok(*send, "--dry-run")
    assert remote.items("command", "list", "--site", miner[0]) == []
    assert remote.json(*send, "--yes")["miner_count"] == 2


def test_unknown_type_and_bad_parameters_name_the_flag(remote: Restante, miner: tuple[str, str]) -> None:
    site, miner_id = miner
    assert remote.error_line("command", "create", site, "NOPE", "--miner", miner_id).startswith("TYPE: expected one of")
    refused = remote.error_line("command", "create", site, "SET_FAN", "--miner", miner_id, "--params", "[1]")
    assert refused.startswith("--params: expected a JSON object")
    wrong = remote.error_line("command", "create", site, "SET_FAN", "--miner", miner_id, "--params", '{"speed": "x"}')
    assert wrong.startswith("--params.speed: ")


def test_local_administrator_is_told_how_to_approve(remote: Restante, miner: tuple[str, str]) -> None:
    before = remote.json("command", "policy")
    changed = remote.json("command", "policy", "--type", "DEVICE_REBOOT", "--window", "1h")
    assert (changed["command_types"], changed["window_seconds"]) == (["DEVICE_REBOOT"], 3600)
    made = remote("command", "create", miner[0], "DEVICE_REBOOT", "--miner", miner[1])
    assert "waits for approval" in made.stdout
    (waiting,) = remote.items("command", "list", "--site", miner[0], "--status", "pending_approval")
    assert "signed-in person" in remote.error_line("command", "approve", waiting["command_id"])
    assert remote.json("command", "deny", waiting["command_id"], "--reason", "no")["status"] == "cancelled"
    remote.ok("command", "policy", "--no-types", "--window", str(before["window_seconds"]))


def test_signatures_are_verified_with_a_secret_or_that_of_a_collector(remote: Restante, tmp_path: Path) -> None:
    vector: dict[str, Any] = VECTORS["vectors"][0]
    command = {**vector["command"], "signature": vector["signature"], "sig_version": VECTORS["sig_version"]}
    command["sig_encoding"] = VECTORS.get("sig_encoding", "hex")
    file, secret = tmp_path / "polled.json", tmp_path / "secret"
    file.write_text(json.dumps({"commands": [command]}))
    secret.write_text(vector["secret"])
    assert remote.items("command", "verify", str(file), "--secret-file", str(secret))[0]["valid"] is True
    site = str(remote.json("site", "create", "signatures")["id"])
    collector = str(remote.json("collector", "create", site, "c")["id"])
    refused = remote("command", "verify", str(file), "--collector", collector)
    assert (refused.exit_code, "INVALID" in refused.stdout) == (1, True)
    assert remote.items("audit", "list", "--site", site, "--event", "collector.secret_read")
    file.write_text('{"command_id": 1, "command_id": 2}')
    assert "a key twice" in remote.error_line("command", "verify", str(file), "--secret-file", str(secret))
