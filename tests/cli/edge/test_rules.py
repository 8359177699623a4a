import json
from pathlib import Path

from restante.commands.audit.signed_heads import is_head
from tests.cli.conftest import Restante

RULE = {
    "name": "too hot",
    "trigger_type": "threshold",
    "trigger_metric": "temp_max",
    "trigger_operator": ">",
    "trigger_value": 85,
    "action_type": "MINER_RESTART",
}


def test_rule_is_made_changed_and_deleted(remote: Restante) -> None:
    site = remote.json("site", "create", "ruled")["id"]
    made = remote.json("rule", "create", json.dumps({**RULE, "site_id": site}))
    number = str(made["id"])
    assert "temp_max > 85" in remote.ok("rule", "list", "--site", "ruled")
    assert remote.json("rule", "update", number, '{"trigger_value": 90}')["trigger_value"] == 90
    assert remote.json("rule", "disable", number)["enabled"] is False
    assert remote.items("rule", "list", "--enabled", "--site", "ruled") == []
    assert remote.json("rule", "enable", number)["enabled"] is True
    assert remote.items("rule", "why", number) == []
    assert "add --yes" in remote.error_line("rule", "delete", number)
    remote.ok("rule", "delete", number, "--yes")
    assert remote.items("rule", "list", "--site", "ruled") == []


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
    site = remote.json("site", "create", "misspelt")["id"]
    rule = {**RULE, "site_id": site, "trigger_metric": "temp_mx"}
    assert remote.error_line("rule", "create", json.dumps(rule)).endswith("did you mean temp_max?")
    assert remote.json("rule", "create", json.dumps({**rule, "trigger_metric": "hashrate_5s"}))["id"]
    assert remote.error_line("audit", "list", "--event", "comand.created").endswith("did you mean command.created?")
    assert remote.error_line("audit", "list", "--event", "x").startswith("--event: expected one of command.created, ")
