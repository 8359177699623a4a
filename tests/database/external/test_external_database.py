import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from restante.database.connection import Connection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.external import external_database
from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.database.queries import Query

TIMEOUT_SECONDS = 30.0
ADD = Query("add", "INSERT INTO notes (text) VALUES (:text)")
ALL = Query("all", "SELECT id, text FROM notes ORDER BY id")
SOME = Query("some", "SELECT id FROM notes WHERE id IN :ids AND text <> '100 %' ORDER BY id")
NOWHERE = Query("nowhere", "SELECT 1 FROM nowhere")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a shop?#.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    return path


@pytest.fixture
def database(path: Path) -> Iterator[ExternalDatabase]:
    address = ExternalAddress("shop", "sqlite", f"sqlite://{quote(str(path))}")
    with closing(ExternalDatabase(address)) as database:
        yield database


@pytest.mark.parametrize(
    "url", ["sqlite://{folder}/{name}", "sqlite:///{folder}/{name}", "sqlite:{name}", "sqlite:./{name}"]
)
async def test_path_of_sqlite_file_is_absolute_or_relative_to_the_working_folder(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    url = url.format(folder=path.parent, name=quote(path.name))
    with closing(ExternalDatabase(ExternalAddress("shop", "sqlite", url))) as database:
        assert await database.read(notes) == []


def add(conn: Connection, text: str) -> int:
    return conn.run(ADD, text=text)


def notes(conn: Connection) -> list[str]:
    return [row["text"] for row in conn.all(ALL)]


async def test_functions_run_in_a_transaction(database: ExternalDatabase) -> None:
    assert await database.write(add, "a") == 1
    assert await database.read(notes) == ["a"]
    assert database.write_now(add, "b") == 1
    assert database.read_now(notes) == ["a", "b"]


async def test_failing_function_changes_nothing(database: ExternalDatabase) -> None:
    def fail(conn: Connection) -> None:
        add(conn, "a")
        raise RuntimeError("raised by the function")

    with pytest.raises(RuntimeError):
        await database.write(fail)
    assert await database.read(notes) == []
    assert database.problem is None


async def test_list_becomes_one_parameter_per_element(database: ExternalDatabase) -> None:
    def work(conn: Connection) -> list[int]:
        conn.run_many(ADD, [{"text": text} for text in ("a", "b", "100 %")])
        conn.add_commit_event("ignored")
        return [row["id"] for row in conn.all(SOME, ids=[1, 3, 4])]

    assert await database.write(work) == [1]


async def test_values_and_run_rows_work_by_position(database: ExternalDatabase) -> None:
    def work(conn: Connection) -> list[tuple[object, ...]]:
        conn.run_rows(ADD, [("a",), ("b",)])
        return conn.values(SOME, ids=[1, 2])

    assert await database.write(work) == [(1,), (2,)]


async def test_refused_statement_is_reported_and_the_next_one_works(database: ExternalDatabase) -> None:
    with pytest.raises(DatabaseError, match="nowhere"):
        await database.read(lambda conn: conn.one(NOWHERE))
    assert "nowhere" in (database.problem or "")
    assert await database.read(notes) == []
    assert database.problem is None


async def test_missing_file_is_not_created(tmp_path: Path) -> None:
    address = ExternalAddress("gone", "sqlite", f"sqlite://{tmp_path / 'gone.db'}")
    with (
        closing(ExternalDatabase(address)) as database,
        pytest.raises(DatabaseUnavailable, match=f"there is no file {tmp_path / 'gone.db'}"),
    ):
        await database.read(notes)
    assert not (tmp_path / "gone.db").exists()


async def test_closed_database_raises_unavailable(database: ExternalDatabase) -> None:
    await database.read(notes)
    database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.read(notes)


async def test_exclusive_writes_run_one_after_another(database: ExternalDatabase) -> None:
    running = threading.Lock()

    def work(conn: Connection) -> None:
        assert running.acquire(blocking=False)
        add(conn, "x")
        running.release()

    with closing(ExternalDatabase(database.address)) as another:
        both = [place.write_exclusive(work) for place in (database, another) for _ in range(5)]
        await asyncio.wait_for(asyncio.gather(*both), TIMEOUT_SECONDS)
    assert len(await database.read(notes)) == 10


async def test_server_that_does_not_respond_is_abandoned_on_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_database, "CLOSE_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = ExternalDatabase(ExternalAddress("silent", "mysql", f"mysql://ada:s3cret@127.0.0.1:{port}/shop"))
        reading = asyncio.create_task(database.read(notes))
        caller, _ = await asyncio.wait_for(asyncio.to_thread(silent.accept), TIMEOUT_SECONDS)
        with capture_logs() as lines:
            database.close()
        assert [(line["event"], line["source"]) for line in lines] == [
            ("external database does not respond, its connection is abandoned", "silent")
        ]
        caller.close()
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(reading, TIMEOUT_SECONDS)


async def test_read_does_not_wait_for_a_writer(database: ExternalDatabase, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("BEGIN IMMEDIATE")
        assert await asyncio.wait_for(database.read(notes), TIMEOUT_SECONDS) == []
        assert database.read_now(notes) == []
        application.execute("ROLLBACK")


def test_address_does_not_show_the_password() -> None:
    address = ExternalAddress("shop", "mysql", "mysql://ada:s3cret@db/shop")
    assert "s3cret" not in f"{address} {address!r}"
