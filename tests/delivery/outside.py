"""Outboxes in databases of three kinds, as an application would have them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from restante.database.outside import OutsideAddress, OutsideDatabase
from restante.outbox import DatabaseKind, schema
from tests.services.mariadb import MariaDb
from tests.services.postgres import PostgresServer

SOURCE = "shop"


class Place(NamedTuple):
    """A database of the user's with an outbox in it."""

    address: OutsideAddress
    connect: Callable[[], Any]

    @contextmanager
    def opened(self) -> Iterator[OutsideDatabase]:
        with closing(OutsideDatabase(self.address)) as source:
            yield source

    def rows(self, columns: str = "id, status") -> list[tuple[Any, ...]]:
        with closing(self.connect()) as conn:
            cursor = conn.cursor()
            cursor.execute(f"SELECT {columns} FROM device_update_outbox ORDER BY id")
            return [tuple(row) for row in cursor.fetchall()]

    def run(self, statement: str) -> None:
        with closing(self.connect()) as conn:
            conn.cursor().execute(statement)
            conn.commit()


def make_schema(conn: Any, kind: DatabaseKind, *, notify: bool = False) -> None:
    for statement in schema(kind, notify=notify).split(";\n"):
        if statement.strip():
            conn.cursor().execute(statement)
    conn.commit()


def in_sqlite(folder: Path) -> Place:
    path = folder / "shop.db"
    place = Place(OutsideAddress(SOURCE, "sqlite", f"sqlite://{path}"), lambda: sqlite3.connect(path, timeout=30))
    with closing(place.connect()) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        make_schema(conn, "sqlite")
    return place


def in_mysql(service: MariaDb, name: str) -> Place:
    url = service.create_database(name)
    place = Place(OutsideAddress(SOURCE, "mysql", url), lambda: service.connect(name))
    with closing(place.connect()) as conn:
        make_schema(conn, "mysql")
    return place


def in_postgres(server: PostgresServer, *, notify: bool = False) -> Place:
    url = server.create()
    place = Place(OutsideAddress(SOURCE, "postgres", url), lambda: psycopg.connect(url))
    with closing(place.connect()) as conn:
        make_schema(conn, "postgresql", notify=notify)
    return place


def end_listeners(server: PostgresServer) -> None:
    """Cut the connections on which notifications are heard."""
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'restante listener'")
