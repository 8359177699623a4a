"""Miners, collectors, sites and zones: renamed, moved, tagged, replaced and retired."""

from tests.cli.conftest import Restante


def test_miner_is_renamed_moved_tagged_replaced_and_retired(remote: Restante) -> None:
    remote.ok("site", "create", "old site")
    remote.ok("site", "create", "new site")
    remote.ok("miner", "create", "old site", "m1")
    assert remote.json("miner", "update", "m1", "--name", "m2", "--site", "new site")["name"] == "m2"
    assert remote.ok("miner", "tag", "m2", "hot") == "Tags of the miner: hot\n"
    assert remote.json("miner", "untag", "m2", "hot") == {"tags": []}
    replaced = remote.json("miner", "replace", "m2", "m3", "--yes")
    assert remote.json("miner", "show", str(replaced["replaced"]))["replaced_by"] == replaced["id"]
    assert "This retires miner" in remote.error_line("miner", "retire", "m3")
    assert remote.json("miner", "retire", "m3", "--yes")["status"] == "retired"
    assert remote.json("miner", "list", "--site", "new site", "--count")["states"]["retired"]["value"] == 2
    assert remote.ok("miner", "export", "--site", "new site").count("\n") == 3
    assert remote("miner", "update", "m2").exit_code == 2


def test_site_and_zone_are_renamed_and_retired(remote: Restante) -> None:
    remote.ok("site", "create", "short lived")
    zone = str(remote.json("zone", "create", "short lived", "west")["id"])
    assert remote.json("zone", "update", zone, "--name", "east")["name"] == "east"
    assert remote.json("zone", "retire", zone, "--yes")["retired_at"] is not None
    assert remote.json("site", "update", "short lived", "--name", "ended")["name"] == "ended"
    assert "with 0 miners" in remote.error_line("site", "retire", "ended")
    assert remote.json("site", "retire", "ended", "--yes")["retired_at"] is not None


def test_collector_is_tagged_counted_and_exported(remote: Restante) -> None:
    remote.ok("site", "create", "collected")
    remote.ok("collector", "create", "collected", "c1")
    assert remote.json("collector", "tag", "c1", "pilot") == {"tags": ["pilot"]}
    assert remote.json("collector", "untag", "c1", "pilot") == {"tags": []}
    assert remote.json("collector", "show", "c1")["device_name"] == "c1"
    assert remote.json("collector", "list", "--count", "--site", "collected")["total"]["value"] == 1
    assert "c1" in remote.ok("collector", "export", "--site", "collected", "--seen-before", "1h")


def test_unknown_miners_can_be_listed(remote: Restante) -> None:
    remote.ok("site", "create", "unknown")
    assert remote.items("telemetry", "list", "--unknown", "--site", "unknown") == []
    assert remote.error_line("telemetry", "list").startswith("--site: expected a value")
    assert remote.items("safety-event", "list", "--unknown", "--since", "1h") == []
    assert remote.json("safety-event", "list", "--count")["total"]["value"] == 0
    assert "id,site_id" in remote.ok("safety-event", "export")
