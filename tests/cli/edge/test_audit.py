import json
from pathlib import Path

import pytest

from restante.database.queries import Query
from tests.cli.conftest import Restante


@pytest.fixture
def with_site(restante: Restante) -> Restante:
    restante.ok("site", "add", "North")
    restante.ok("miner", "add", "1", "a")
    restante.ok("commands", "send", "1", "restart", "--miner", "1")
    return restante


def tamper(restante: Restante, statement: str) -> None:
    with restante.database() as database:
        database.write_now(lambda conn: conn.run(Query("tamper", statement)))


def test_list_applies_filters(with_site: Restante) -> None:
    events = [row["event"] for row in with_site.json("audit", "list", "--site", "1")["items"]]
    assert events == ["command.created", "miner.created", "site.created"]
    (row,) = with_site.json("audit", "list", "--event", "command.created", "--since", "2020-01-01T00:00:00Z")["items"]
    assert with_site.json("audit", "list", "--command", row["command_id"])["items"] == [row]
    assert with_site.json("audit", "list", "--by", "nobody")["items"] == []
    assert with_site.ok("audit", "list", "--until", "2020-01-01T00:00:00Z") == "Nothing was recorded.\n"
    shown = with_site.ok("audit", "list", "--limit", "1")
    assert "command.created" in shown
    assert "--after" in shown
    assert with_site.error_line("audit", "list", "--since", "soon").startswith("--since: expected")


def test_verify_reports_unbroken_trail(with_site: Restante) -> None:
    assert with_site.ok("audit", "verify") == "The audit trail is unbroken: 7 rows in 2 chains.\n"
    assert with_site.json("audit", "verify")["intact"] is True


def test_verify_of_broken_trail_names_row_and_exits_with_1(with_site: Restante) -> None:
    tamper(with_site, "UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 2")
    result = with_site("audit", "verify")
    assert result.exit_code == 1
    assert "broken at row 2 of chain 1" in result.stdout
    assert json.loads(with_site("audit", "verify", "--json").stdout)["broken"]["n"] == 2


def test_export_is_verified_without_database(with_site: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert with_site.ok("audit", "export", "--out", str(file)) == f"7 rows are in {file}.\n"
    assert with_site.json("audit", "export", "--out", str(file), "--site", "1")["rows"] == 3
    assert with_site.ok("audit", "export", "--site", "1").splitlines()[1:] == file.read_text().splitlines()[1:]
    (with_site.data / "restante.db").unlink()
    assert "unbroken: 3 rows" in with_site.ok("audit", "verify", str(file))
    assert not (with_site.data / "restante.db").exists()
    file.write_text(file.read_text().replace('"n":2,', '"n":9,'))
    assert with_site("audit", "verify", str(file)).exit_code == 1


def test_verify_since_export_detects_restored_older_database(with_site: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    older = (with_site.data / "restante.db").read_bytes()
    with_site.ok("site", "add", "South")
    with_site.ok("audit", "export", "--out", str(file))
    assert "unbroken" in with_site.ok("audit", "verify", "--since", str(file))
    for name in ("restante.db-wal", "restante.db-shm"):
        (with_site.data / name).unlink(missing_ok=True)
    (with_site.data / "restante.db").write_bytes(older)
    assert with_site("audit", "verify").exit_code == 1
    (with_site.data / "audit.head").unlink()
    assert "unbroken" in with_site.ok("audit", "verify")
    result = with_site("audit", "verify", "--since", str(file))
    assert result.exit_code == 1
    assert "the row was exported or remembered before" in result.stdout


def test_anchor_writes_a_signed_head(with_site: Restante, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "anchors"
    head = with_site.json("audit", "anchor", "--to", str(file))
    assert json.loads(file.read_text()) == head
    monkeypatch.setenv("RESTANTE_AUDIT_ANCHOR", str(file))
    assert with_site.ok("audit", "anchor").endswith(f"of chain 0 is anchored at {file}.\n")
    assert len(file.read_text().splitlines()) == 2
    assert "unbroken" in with_site.ok("audit", "verify", "--since", str(file))
    file.write_text(file.read_text().replace('"n":', '"n":1', 1))
    assert "line 1: expected an unchanged audit head" in with_site.error_line("audit", "verify", "--since", str(file))


def test_anchor_without_a_usable_target_is_refused(restante: Restante) -> None:
    assert restante("audit", "anchor").exit_code == 2
    assert restante.error_line("audit", "anchor", "--to", "ftp://host/").startswith("--to: expected syslog")
    assert "nothing to anchor" in restante.error_line("audit", "anchor", "--to", "anchors")
    restante.ok("site", "add", "North")
    assert "not written to /none/anchors" in restante.error_line("audit", "anchor", "--to", "/none/anchors")


def test_wrong_usage_is_refused(with_site: Restante, tmp_path: Path) -> None:
    assert with_site("audit", "verify", "a", "--since", "b").exit_code == 2
    assert "No such file" in with_site.error_line("audit", "verify", "absent.jsonl")
    (tmp_path / "other").write_text("{}")
    message = "line 1: expected the first line of an audit export"
    assert with_site.error_line("audit", "verify", str(tmp_path / "other")) == message
    assert with_site.error_line("audit", "verify", "--since", str(tmp_path / "other")) == message


def test_verify_of_export_needs_master_key(with_site: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    with_site.ok("audit", "export", "--out", str(file))
    key = (with_site.data / "master.key").rename(tmp_path / "master.key")
    assert "does not exist" in with_site.error_line("audit", "verify", str(file))
    assert not (with_site.data / "master.key").exists()
    key.rename(with_site.data / "master.key")
    assert "unbroken" in with_site.ok("audit", "verify", str(file))
