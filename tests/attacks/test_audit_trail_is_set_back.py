"""Attack: delete the newest audit rows and put an older, signed checkpoint back. It needs no key."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Restante
from tests.server.live_server import LiveServer


@pytest.fixture
def restante(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Restante]:
    """The command line beside a server without background services: heads are recorded when an anchor asks for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    server = LiveServer(tmp_path / "data", has_services=False, has_local_socket=True)
    restante = Restante(tmp_path / "data")
    restante.ok("site", "create", "North")
    restante.ok("miner", "create", "1", "a")
    restante.ok("command", "create", "1", "restart", "--miner", "1")
    restante.ok("audit", "anchor")
    yield restante
    server.close()


def send(restante: Restante) -> None:
    """Send a command, and let the server record the heads of the chains."""
    restante.ok("command", "create", "1", "restart", "--miner", "1")
    restante.ok("audit", "anchor")


def export(restante: Restante, path: Path) -> list[dict[str, Any]]:
    """Export the trail; return the checkpoints, which contain their signatures."""
    assert restante("audit", "export", "--out", str(path)).exit_code == 0
    checkpoints: list[dict[str, Any]] = json.loads(path.read_bytes().splitlines()[0])["checkpoints"]
    return checkpoints


def set_back(data: Path, checkpoints: list[dict[str, Any]], *chains: int) -> None:
    with sqlite3.connect(data / "restante.db") as conn:
        for each in checkpoints:
            if each["chain"] in chains:
                conn.execute("DELETE FROM command_audit WHERE chain = ? AND n > ?", (each["chain"], each["n"]))
                conn.execute("DELETE FROM audit_checkpoints WHERE chain = ?", (each["chain"],))
                hashes = [bytes.fromhex(each[name]) for name in ("hash", "signature")]
                conn.execute(
                    "INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) VALUES (?, ?, ?, ?, ?, ?)",
                    (each["chain"], each["n"] // 64, each["n"], hashes[0], each["at"], hashes[1]),
                )
    conn.close()


def test_chain_set_back_to_an_exported_checkpoint_is_found(restante: Restante, tmp_path: Path) -> None:
    checkpoints = export(restante, tmp_path / "export.jsonl")
    send(restante)
    set_back(restante.data, checkpoints, 1)
    result = restante("audit", "verify")
    assert result.exit_code == 1
    assert "chain 0 has recorded this row" in result.stdout


def test_all_chains_set_back_together_are_found_by_the_remembered_head(restante: Restante, tmp_path: Path) -> None:
    checkpoints = export(restante, tmp_path / "export.jsonl")
    send(restante)
    set_back(restante.data, checkpoints, 0, 1)
    result = restante("audit", "verify")
    assert result.exit_code == 1
    assert "exported or stored elsewhere before" in result.stdout


def test_data_folder_set_back_as_a_whole_is_found_by_an_anchor_only(restante: Restante, tmp_path: Path) -> None:
    """All of the folder is set back, with the remembered head: only what is stored elsewhere shows it."""
    checkpoints = export(restante, tmp_path / "export.jsonl")
    remembered = (restante.data / "audit.head").read_bytes()
    send(restante)
    anchors = tmp_path / "anchors"
    assert "is anchored" in restante.ok("audit", "anchor", "--to", str(anchors))
    later = tmp_path / "later.jsonl"
    export(restante, later)
    set_back(restante.data, checkpoints, 0, 1)
    (restante.data / "audit.head").write_bytes(remembered)
    assert restante.json("audit", "verify")["intact"] is True
    assert restante.json("audit", "verify", "--since", str(tmp_path / "export.jsonl"))["intact"] is True
    for proof in (anchors, later):
        result = restante("audit", "verify", "--since", str(proof))
        assert result.exit_code == 1, proof
        assert "exported or stored elsewhere before" in result.stdout


def test_time_of_a_checkpoint_cannot_be_changed(restante: Restante) -> None:
    with sqlite3.connect(restante.data / "restante.db") as conn:
        conn.execute("UPDATE audit_checkpoints SET at = at + 1 WHERE chain = 1")
    conn.close()
    result = restante("audit", "verify")
    assert result.exit_code == 1
    assert "checkpoint is missing or not authentic" in result.stdout
