import json
from pathlib import Path

import pytest

from restante.database.queries import Query
from tests.cli.conftest import Restante


@pytest.fixture
def north(restante: Restante) -> Restante:
    restante.ok("site", "add", "North")
    restante.ok("miner", "add", "1", "a")
    restante.ok("commands", "send", "1", "restart", "--miner", "1")
    return restante


def tamper(restante: Restante, statement: str) -> None:
    with restante.database() as database:
        database.write_now(lambda conn: conn.run(Query("tamper", statement)))


def test_list(north: Restante) -> None:
    events = [row["event"] for row in north.json("audit", "list", "--site", "1")["items"]]
    assert events == ["command.created", "miner.created", "site.created"]
    (row,) = north.json("audit", "list", "--event", "command.created", "--since", "2020-01-01T00:00:00Z")["items"]
    assert north.json("audit", "list", "--command", row["command_id"])["items"] == [row]
    assert north.json("audit", "list", "--by", "nobody")["items"] == []
    assert north.ok("audit", "list", "--until", "2020-01-01T00:00:00Z") == "Nothing was recorded.\n"
    shown = north.ok("audit", "list", "--limit", "1")
    assert "command.created" in shown
    assert "--after" in shown
    assert north.complaint("audit", "list", "--since", "soon").startswith("--since: expected")


def test_an_unbroken_trail(north: Restante) -> None:
    assert north.ok("audit", "verify") == "The audit trail is unbroken: 4 rows in 2 chains.\n"
    assert north.json("audit", "verify")["intact"] is True


def test_a_broken_one_names_the_row_and_ends_with_1(north: Restante) -> None:
    tamper(north, "UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 2")
    result = north("audit", "verify")
    assert result.exit_code == 1
    assert "broken at row 2 of chain 1" in result.stdout
    assert json.loads(north("audit", "verify", "--json").stdout)["broken"]["n"] == 2


def test_an_export_is_verified_without_the_database(north: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert north.ok("audit", "export", "--out", str(file)) == f"4 rows are in {file}.\n"
    assert north.json("audit", "export", "--out", str(file), "--site", "1")["rows"] == 3
    assert north.ok("audit", "export", "--site", "1").splitlines()[1:] == file.read_text().splitlines()[1:]
    (north.data / "restante.db").unlink()
    assert "unbroken: 3 rows" in north.ok("audit", "verify", str(file))
    assert not (north.data / "restante.db").exists()
    file.write_text(file.read_text().replace('"n":2,', '"n":9,'))
    assert north("audit", "verify", str(file)).exit_code == 1


def test_an_older_state_shows_against_an_export(north: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    older = (north.data / "restante.db").read_bytes()
    north.ok("site", "add", "South")
    north.ok("audit", "export", "--out", str(file))
    assert "unbroken" in north.ok("audit", "verify", "--since", str(file))
    for name in ("restante.db-wal", "restante.db-shm"):
        (north.data / name).unlink(missing_ok=True)
    (north.data / "restante.db").write_bytes(older)
    assert "unbroken" in north.ok("audit", "verify")
    result = north("audit", "verify", "--since", str(file))
    assert result.exit_code == 1
    assert "not the one that was exported" in result.stdout


def test_wrong_usage(north: Restante, tmp_path: Path) -> None:
    assert north("audit", "verify", "a", "--since", "b").exit_code == 2
    assert "No such file" in north.complaint("audit", "verify", "absent.jsonl")
    (tmp_path / "other").write_text("{}")
    said = "line 1: expected the first line of an audit export"
    assert north.complaint("audit", "verify", str(tmp_path / "other")) == said
    assert north.complaint("audit", "verify", "--since", str(tmp_path / "other")) == said


def test_an_export_needs_the_master_key(north: Restante, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    north.ok("audit", "export", "--out", str(file))
    key = (north.data / "master.key").rename(tmp_path / "master.key")
    assert "is not there" in north.complaint("audit", "verify", str(file))
    assert not (north.data / "master.key").exists()
    key.rename(north.data / "master.key")
    assert "unbroken" in north.ok("audit", "verify", str(file))
