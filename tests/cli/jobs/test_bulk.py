"""`restante bulk` and `restante job` against a server that runs jobs."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import AddDevice, Restante

CONFIG = {"installs": [{"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}]}


@pytest.fixture
def tagged(remote: Restante, add_device: AddDevice, request: pytest.FixtureRequest) -> str:
    """A tag that two devices have."""
    tag = f"t-{request.node.name[-40:].strip('_')}".replace("_", "-")
    for number in range(2):
        remote.ok("device", "tag", str(add_device(f"{tag} {number}")), tag)
    return tag


def test_dry_run_shows_count_and_sample_and_changes_nothing(remote: Restante, tagged: str) -> None:
    done = remote("bulk", "send-signal", "app.hello", "--tag", tagged, "--dry-run")
    assert done.exit_code == 0
    assert done.stderr == "2 devices match. Nothing was changed.\n"
    assert [line.split("\t")[2] for line in done.stdout.splitlines()] == ["name", f"{tagged} 0", f"{tagged} 1"]
    found = remote.json("bulk", "send-signal", "app.hello", "--tag", tagged, "--dry-run")
    assert (found["total"], found["needs_approval"]) == (2, False)
    assert not [job for job in remote.items("job", "list") if job["filter"] == {"tag": tagged}]


def test_bulk_asks_with_the_count_and_names(remote: Restante, tagged: str) -> None:
    line = remote.error_line("bulk", "revoke-devices", "--tag", tagged)
    assert line.startswith(f"This permanently revokes 2 devices ({tagged} 0, {tagged} 1).")


def test_bulk_without_filter_is_refused(remote: Restante) -> None:
    assert remote.error_line("bulk", "send-signal", "app.hello", "--yes").startswith("a filter is missing")


def test_bulk_that_matches_nothing_creates_no_job(remote: Restante) -> None:
    before = remote.json("job", "list", "--count")
    assert remote.ok("bulk", "revoke-devices", "--name", "nobody", "--yes") == "No devices match: nothing to do.\n"
    assert remote.json("job", "list", "--count") == before


def test_watched_bulk_ends_with_the_result_of_each_item(remote: Restante, tagged: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    done = remote("bulk", "put-config", str(file), "--tag", tagged, "--yes", "--watch", "--json")
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    assert (job["state"], job["done"], job["action"]) == ("done", 2, "put_config")
    assert [each["state"] for each in remote.items("job", "items", job["job_id"][:12])] == ["done", "done"]
    assert remote.json("job", "show", job["job_id"])["done"] == 2
    assert remote.items("device", "list", "--tag", tagged, "--config-version", "behind")[0]["config_wanted"] == 1


def test_watched_bulk_with_failed_items_exits_with_1(remote: Restante, tagged: str, tmp_path: Path) -> None:
    file = tmp_path / "patch.json"
    file.write_text('{"installs": {"a": {"enabled": false}}}')
    done = remote("bulk", "patch-config", str(file), "--tag", tagged, "--yes", "--watch")
    assert done.exit_code == 1
    assert "--state failed shows why items failed" in done.stderr


def test_refusals_name_flags(remote: Restante, tmp_path: Path) -> None:
    line = remote.error_line("bulk", "send-signal", "app.hello", "--config-version", "behnd", "--yes")
    assert line.startswith("--config-version: expected behind")
    assert "--rate: " in remote.error_line("bulk", "send-signal", "app.hello", "--all", "--rate", "0", "--yes")
    line = remote.error_line("bulk", "send-command", "nothing", "--all", "--yes")
    assert line.startswith("TYPE: "), line
    file = tmp_path / "no.json"
    file.write_text("[]")
    assert remote.error_line("bulk", "put-config", str(file), "--all").startswith("FILE: expected a JSON object")


def test_one_command_for_all_miners_of_a_site_is_counted_and_aborted(remote: Restante) -> None:
    remote.ok("site", "create", "bulked")
    for name in ("b1", "b2", "b3"):
        remote.ok("miner", "create", "bulked", name)
    made = ("bulk", "send-command", "restart", "--site", "bulked", "--miner", "b1", "--miner", "b2", "--rate", "1")
    job = remote.json(*made, "--yes")
    assert job["total"] == 2
    remote("job", "pause", job["job_id"])
    remote("job", "resume", job["job_id"])
    assert remote("job", "watch", job["job_id"]).exit_code == 0
    shown = remote.json("job", "show", job["job_id"])
    assert shown["outcomes"] == {"pending": 2}
    assert len(remote.items("command", "list", "--site", "bulked", "--status", "pending")) == 2
    cancelled = remote("bulk", "cancel-commands", "--job", job["job_id"], "--yes", "--watch")
    assert cancelled.exit_code == 0, cancelled.output
    assert remote.json("command", "list", "--site", "bulked", "--count")["states"]["cancelled"]["value"] == 2
    again = remote("bulk", "retry-commands", "--site", "bulked", "--status", "cancelled", "--yes", "--watch")
    assert again.exit_code == 0, again.output
    assert "This ends job" in remote.error_line("job", "abort", job["job_id"])
    assert "done" in remote.error_line("job", "abort", job["job_id"], "--yes")


def test_events_and_outbox_rows_are_selected_by_flags(remote: Restante) -> None:
    for words in (
        ("release-events", "--txn", "nothing"),
        ("drop-events", "--err", "jwtIss", "--since", "1h"),
        ("redeliver-events", "--acknowledged-since", "1h"),
        ("retry-outbox", "--type", "app.hello", "--until", "1h"),
        ("renew-certificates", "--name", "nobody", "--expiring-within", "30d"),
    ):
        assert remote.json("bulk", *words, "--dry-run")["total"] == 0
