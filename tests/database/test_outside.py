import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from restante.database import outside
from restante.database.connection import Connection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.outside import OutsideAddress, OutsideDatabase
from restante.database.queries import Query

SOON = 30.0
ADD = Query("add", "INSERT INTO notes (text) VALUES (:text)")
ALL = Query("all", "SELECT id, text FROM notes ORDER BY id")
SOME = Query("some", "SELECT id FROM notes WHERE id IN :ids AND text <> '100 %' ORDER BY id")
NOWHERE = Query("nowhere", "SELECT 1 FROM nowhere")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a shop.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    return path


@pytest.fixture
def database(path: Path) -> Iterator[OutsideDatabase]:
    address = OutsideAddress("shop", "sqlite", f"sqlite://{str(path).replace(' ', '%20')}")
    with closing(OutsideDatabase(address)) as database:
        yield database


def add(conn: Connection, text: str) -> int:
    return conn.run(ADD, text=text)


def notes(conn: Connection) -> list[str]:
    return [row["text"] for row in conn.all(ALL)]


async def test_work_is_one_transaction(database: OutsideDatabase) -> None:
    assert await database.write(add, "a") == 1
    assert await database.read(notes) == ["a"]
    assert database.write_now(add, "b") == 1
    assert database.read_now(notes) == ["a", "b"]


async def test_work_that_fails_has_done_nothing(database: OutsideDatabase) -> None:
    def fail(conn: Connection) -> None:
        add(conn, "a")
        raise RuntimeError("of the work's own")

    with pytest.raises(RuntimeError):
        await database.write(fail)
    assert await database.read(notes) == []
    assert database.problem is None


async def test_lists_become_as_many_parameters_as_they_have_members(database: OutsideDatabase) -> None:
    def work(conn: Connection) -> list[int]:
        conn.run_many(ADD, [{"text": text} for text in ("a", "b", "100 %")])
        conn.announce("heard by nobody")
        return [row["id"] for row in conn.all(SOME, ids=[1, 3, 4])]

    assert await database.write(work) == [1]


async def test_rows_by_position_are_the_same_as_by_name(database: OutsideDatabase) -> None:
    def work(conn: Connection) -> list[tuple[object, ...]]:
        conn.run_rows(ADD, [("a",), ("b",)])
        return conn.values(SOME, ids=[1, 2])

    assert await database.write(work) == [(1,), (2,)]


async def test_a_refused_statement_is_said_and_the_next_one_works(database: OutsideDatabase) -> None:
    with pytest.raises(DatabaseError, match="nowhere"):
        await database.read(lambda conn: conn.one(NOWHERE))
    assert "nowhere" in (database.problem or "")
    assert await database.read(notes) == []
    assert database.problem is None


async def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    address = OutsideAddress("gone", "sqlite", f"sqlite://{tmp_path / 'gone.db'}")
    with closing(OutsideDatabase(address)) as database, pytest.raises(DatabaseUnavailable):
        await database.read(notes)
    assert not (tmp_path / "gone.db").exists()


async def test_once_closed_it_says_so(database: OutsideDatabase) -> None:
    await database.read(notes)
    database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.read(notes)


async def test_alone_means_one_after_the_other(database: OutsideDatabase) -> None:
    at_it = threading.Lock()

    def work(conn: Connection) -> None:
        assert at_it.acquire(blocking=False)
        add(conn, "x")
        at_it.release()

    with closing(OutsideDatabase(database.address)) as another:
        both = [place.write_alone(work) for place in (database, another) for _ in range(5)]
        await asyncio.wait_for(asyncio.gather(*both), SOON)
    assert len(await database.read(notes)) == 10


async def test_one_that_does_not_answer_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "CLOSE_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = OutsideDatabase(OutsideAddress("silent", "mysql", f"mysql://ada:s3cret@127.0.0.1:{port}/shop"))
        asking = asyncio.create_task(database.read(notes))
        caller, _ = await asyncio.wait_for(asyncio.to_thread(silent.accept), SOON)
        with capture_logs() as lines:
            database.close()
        assert [(line["event"], line["source"]) for line in lines] == [
            ("a database does not answer, the connection to it is left behind", "silent")
        ]
        caller.close()
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(asking, SOON)


async def test_who_only_looks_is_in_no_writers_way(database: OutsideDatabase, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as application:
        application.execute("BEGIN IMMEDIATE")
        assert await asyncio.wait_for(database.read(notes), SOON) == []
        assert database.read_now(notes) == []
        application.execute("ROLLBACK")


def test_no_password_is_shown() -> None:
    address = OutsideAddress("shop", "mysql", "mysql://ada:s3cret@db/shop")
    assert "s3cret" not in f"{address} {address!r}"
