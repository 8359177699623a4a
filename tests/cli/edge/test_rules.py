from pathlib import Path

import pytest

from restante.commands.audit.signed_heads import is_head
from tests.cli.conftest import Restante

HOT = ("--metric", "temp_max", "--above", "85", "--command", "restart")


def test_rule_is_made_changed_and_deleted(remote: Restante) -> None:
    site = remote.json("site", "create", "ruled")["id"]
    made = remote.json("rule", "create", "too hot", "--site", "ruled", *HOT)
    assert (made["site_id"], made["action_type"], made["enabled"]) == (site, "MINER_RESTART", True)
    number = str(made["id"])
    assert "temp_max > 85" in remote.ok("rule", "list", "--site", "ruled")
    assert remote.json("rule", "update", number, "--above", "90")["trigger_value"] == 90
    assert remote.json("rule", "disable", number)["enabled"] is False
    assert remote.items("rule", "list", "--enabled", "--site", "ruled") == []
    assert remote.json("rule", "enable", number)["enabled"] is True
    assert remote.items("rule", "why", number) == []
    assert "add --yes" in remote.error_line("rule", "delete", number)
    remote.ok("rule", "delete", number, "--yes")
    assert remote.items("rule", "list", "--site", "ruled") == []


def test_rule_gets_what_its_options_say(remote: Restante, tmp_path: Path) -> None:
    remote.ok("site", "create", "optional")
    miners = [remote.json("miner", "create", "optional", name)["id"] for name in ("rule m1", "rule m2")]
    params = tmp_path / "params.json"
    params.write_text('{"speed": 80}')
    rule = ("rule", "create", "fans", "--site", "optional", "--command", "SET_FAN", "--params", f"@{params}")
    condition = ("--metric", "hashrate_5s", "--at-most", "12.5", "--for", "2m")
    which = ("--miner", "rule m1", "--miner", str(miners[1]))
    made = remote.json(*rule, *condition, *which, "--cooldown", "1h", "--priority", "7", "--disabled")
    assert (made["trigger_operator"], made["trigger_value"], made["trigger_duration_seconds"]) == ("<=", 12.5, 120)
    assert (made["cooldown_seconds"], made["priority"], made["enabled"]) == (3600, 7, False)
    assert (made["miner_ids"], made["action_parameters"]) == (miners, {"speed": 80})
    changes = ("--name", "silent", "--offline", "--for", "5m", "--all-miners", "--command", "restart", "--params", "{}")
    changed = remote.json("rule", "update", str(made["id"]), *changes)
    assert (changed["name"], changed["trigger_type"], changed["trigger_metric"]) == ("silent", "offline", None)
    assert (changed["trigger_duration_seconds"], changed["miner_ids"]) == (300, None)
    assert (changed["cooldown_seconds"], changed["action_type"]) == (3600, "MINER_RESTART")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "--metric"),
        (("--metric", "temp_max"), "--above"),
        (("--above", "5"), "--metric"),
        (("--metric", "temp_max", "--above", "5", "--below", "3"), "only one of --above"),
        (("--offline", "--metric", "temp_max"), "--offline"),
        (("--metric", "temp_max", "--above", "hot"), "--above"),
    ],
)
def test_rule_without_one_clear_condition_is_refused(remote: Restante, options: list[str], expected: str) -> None:
    refused = remote("rule", "create", "x", "--site", "1", "--command", "restart", *options)
    assert refused.exit_code == 2
    assert expected in refused.stderr


def test_refusal_of_a_rule_names_the_option(remote: Restante) -> None:
    site = str(remote.json("site", "create", "refusing")["id"])
    rule = ("rule", "create", "x", "--site", site)
    assert remote.error_line(*rule, "--offline", "--for", "5s", "--command", "restart").startswith("--for: expected")
    assert remote.error_line(*rule, *HOT, "--command", "dance").startswith("--command: expected")
    assert remote.error_line(*rule, *HOT, "--params", "[]").startswith("--params: expected a JSON object")
    assert "all-miners" in remote("rule", "update", "1", "--all-miners", "--miner", "2").stderr
    assert remote("rule", "update", "1").exit_code == 2


def test_lists_of_reports_are_empty_without_miners(remote: Restante) -> None:
    remote.json("site", "create", "silent")
    assert remote.items("telemetry", "list", "--site", "silent") == []
    assert remote.items("safety-event", "list", "--site", "silent", "--since", "1d") == []
    assert remote.ok("safety-event", "export", "--site", "silent").startswith("\ufeffid,")


def test_audit_trail_is_listed_exported_verified_and_anchored(remote: Restante, tmp_path: Path) -> None:
    site = str(remote.json("site", "create", "audited")["id"])
    assert [each["event"] for each in remote.items("audit", "list", "--site", site, "--since", "1h")][
        -1
    ] == "site.created"
    assert remote.items("audit", "list", "--site", site, "--until", "1h") == []
    export, anchors = tmp_path / "audit.jsonl", tmp_path / "anchors"
    assert remote("audit", "export", "--out", str(export)).exit_code == 0
    assert "is anchored" in remote.ok("audit", "anchor", "--to", str(anchors))
    assert is_head(anchors.read_bytes())
    for since in ([], ["--since", str(export)], ["--since", str(anchors)]):
        assert remote.json("audit", "verify", *since)["intact"] is True
    export.write_bytes(b"{}\n")
    assert remote.error_line("audit", "verify", "--since", str(export)).startswith("--since: expected")
    assert remote.json("audit", "anchor")["chain"] == 0


def test_misspelt_metric_and_event_are_refused_with_a_suggestion(remote: Restante) -> None:
    remote.ok("site", "create", "misspelt")
    rule = ("rule", "create", "x", "--site", "misspelt", *HOT)
    message = remote.error_line(*rule, "--metric", "temp_mx")
    assert message.startswith("--metric: ")
    assert message.endswith("did you mean temp_max?")
    assert remote.json(*rule, "--metric", "hashrate_5s")["id"]
    assert remote.error_line("audit", "list", "--event", "comand.created").endswith("did you mean command.created?")
    assert remote.error_line("audit", "list", "--event", "x").startswith("--event: expected one of command.created, ")
