"""`restante rollout` against a server that runs rollouts."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import AddDevice, Restante

CONFIG = {"installs": [{"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}]}


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    return str(file)


def test_rollout_in_waves_is_shown_advanced_and_rolled_back(
    remote: Restante, add_device: AddDevice, config: str
) -> None:
    for number in range(4):
        remote.ok("device", "tag", str(add_device(f"waved {number}")), "waved")
    remote.ok("device", "tag", "waved 0", "first")
    remote.ok("group", "create", "first", "--tag", "first")
    create = ["rollout", "create", "new path", "--config", config, "--tag", "waved", "--wave", "group:first"]
    create += ["--wave", "50%", "--wave", "1", "--errors", "2", "--success", "90", "--min-time", "10m"]
    line = remote.error_line(*create)
    assert line.startswith("This begins a rollout of put_config in the waves group:first, 50%, 1 more to 4 devices")
    assert remote.json(*create, "--dry-run")["total"] == 4
    made = remote.json(*create, "--yes")
    name = made["rollout_id"][:14]
    assert (made["error_percent"], made["success_percent"], made["min_wave_seconds"]) == (2, 90, 600)
    assert [each["rollout_id"] for each in remote.items("rollout", "list", "--state", "running")] == [
        made["rollout_id"]
    ]
    assert remote.json("rollout", "update", name, "--errors", "3", "--max-time", "1h")["max_wave_seconds"] == 3600
    assert "group:first" in remote.ok("rollout", "show", name)
    assert remote.json("rollout", "pause", name)["state"] == "paused"
    assert remote("rollout", "watch", name).exit_code == 1
    assert remote.json("rollout", "resume", name)["state"] == "running"
    assert "This begins the next wave" in remote.error_line("rollout", "advance", name)
    assert remote.items("rollout", "laggards", name)[0]["name"] == "waved 0"
    remote.ok("rollout", "abort", name, "--yes")
    assert "This undoes rollout" in remote.error_line("rollout", "roll-back", name)
    assert remote.json("rollout", "roll-back", name, "--yes")["state"] in ("rolling_back", "rolled_back")


def test_rollout_names_the_flag_that_is_wrong(remote: Restante, config: str) -> None:
    base = ("rollout", "create", "x", "--config", config, "--all")
    assert remote.error_line(*base, "--wave", "many").startswith("--wave: expected 10%")
    assert remote.error_line(*base, "--wave", "50%", "--wave", "10%").startswith("--wave[1].percent: expected more")
    assert remote.error_line(*base, "--errors", "101").startswith("--errors: ")
    assert remote("rollout", "create", "x", "--all").exit_code == 2
    assert remote("rollout", "create", "x", "--config", config, "--renew-certificates", "--all").exit_code == 2


def test_rollout_of_a_command_goes_to_miners(remote: Restante) -> None:
    remote.ok("site", "create", "rolled")
    remote.ok("miner", "create", "rolled", "r1")
    made = remote.json("rollout", "create", "restarts", "--command", "restart", "--site", "rolled", "--yes")
    assert (made["target"], made["action"], made["total"]) == ("miners", "send", 1)
    remote.ok("rollout", "abort", made["rollout_id"], "--yes")
