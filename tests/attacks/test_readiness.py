"""`/readyz` is 503 with the reason while no write succeeds or the database file is gone (promise 17 of SECURITY.md)."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from restante.database.errors import DatabaseUnavailable
from restante.database.queries import Query
from restante.database.sqlite import SqliteConnection
from restante.server.data_folder import DataFolder
from restante.server.monitoring import readiness
from tests.server.live_server import LiveServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    (tmp_path / "data").mkdir()
    with closing(LiveServer(tmp_path / "data", has_services=False)) as server:
        yield server


def ready(server: LiveServer) -> tuple[int, str]:
    """The status, and the reason if there is one."""
    response = httpx.get(f"http://127.0.0.1:{server.fast_port}/readyz")
    if response.status_code != 200:
        assert response.headers["retry-after"] == "1"
    return response.status_code, response.json().get("error", {}).get("what", "")


def write(server: LiveServer) -> None:
    server.node.database.write_now(readiness.touch)


def tried_writes(server: LiveServer) -> int:
    """Counts real changes: SQLite writes nothing if a statement changes nothing, even on a broken disk."""
    counted = Query("tried", "SELECT COALESCE(SUM(value), 0) AS count FROM revisions WHERE name LIKE 'readiness %'")
    return int(server.node.database.read_now(lambda conn: conn.all(counted))[0]["count"])


def is_writable(server: LiveServer) -> bool:
    try:
        write(server)
    except DatabaseUnavailable:
        return False
    return True


def wait_until_writes_fail(server: LiveServer) -> None:
    server.wait_until(lambda: not is_writable(server))


def test_server_whose_writes_all_fail_is_not_ready(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server)
    assert ready(server) == (200, "")

    def fail_to_commit(_conn: SqliteConnection) -> list[object]:
        raise DatabaseUnavailable("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteConnection, "commit", fail_to_commit)
        # The last success is recent, but a write has failed since.
        with pytest.raises(DatabaseUnavailable):
            write(server)
        assert ready(server) == (503, "writes fail")
        monkeypatch.setattr(readiness, "RETRY_SECONDS", 0.0)
        assert ready(server) == (503, "writes fail")
    assert ready(server) == (200, "")


def test_readiness_tries_a_write_if_none_succeeded_lately(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server)
    assert ready(server) == (200, "")
    assert tried_writes(server) == 1
    monkeypatch.setattr(readiness, "RECENT_SECONDS", 0.0)
    assert ready(server) == (200, "")
    assert tried_writes(server) == 2


@pytest.mark.parametrize("way", ["file removed", "file replaced", "folder renamed"])
def test_lost_database_file_is_noticed_and_writes_are_refused(server: LiveServer, tmp_path: Path, way: str) -> None:
    folder = DataFolder(tmp_path / "data")
    write(server)
    if way == "file removed":
        folder.database_path.unlink()
    elif way == "file replaced":
        shutil.copy(folder.database_path, tmp_path / "copy.db")
        (tmp_path / "copy.db").rename(folder.database_path)
    else:
        folder.path.rename(tmp_path / "renamed")
    expected = "the data folder is gone" if way == "folder renamed" else "the database file is gone or was replaced"
    assert ready(server) == (503, expected)
    wait_until_writes_fail(server)
    assert httpx.get(f"http://127.0.0.1:{server.fast_port}/healthz").status_code == 200


def test_renamed_folder_that_comes_back_is_ready_again(server: LiveServer, tmp_path: Path) -> None:
    write(server)
    (tmp_path / "data").rename(tmp_path / "renamed")
    wait_until_writes_fail(server)
    assert ready(server)[0] == 503
    (tmp_path / "renamed").rename(tmp_path / "data")
    server.wait_until(lambda: is_writable(server))
    assert ready(server) == (200, "")
