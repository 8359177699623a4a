"""Databases of three kinds with an outbox, as applications have them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.outbox import DatabaseKind, schema
from tests.services.mariadb import MariaDb
from tests.services.postgres import PostgresServer

SOURCE = "shop"


@dataclass(frozen=True, slots=True)
class ApplicationDatabase:
    """The database of an application, with an outbox."""

    address: ExternalAddress
    connect: Callable[[], Any]

    @contextmanager
    def opened(self) -> Iterator[ExternalDatabase]:
        with closing(ExternalDatabase(self.address)) as source:
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


def create_schema(conn: Any, kind: DatabaseKind, *, notify: bool = False) -> None:
    for statement in schema(kind, notify=notify).split(";\n"):
        if statement.strip():
            conn.cursor().execute(statement)
    conn.commit()


def sqlite_application(folder: Path) -> ApplicationDatabase:
    path = folder / "shop.db"
    application = ApplicationDatabase(
        ExternalAddress(SOURCE, "sqlite", f"sqlite://{path}"), lambda: sqlite3.connect(path, timeout=30)
    )
    with closing(application.connect()) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        create_schema(conn, "sqlite")
    return application


def mysql_application(service: MariaDb, name: str) -> ApplicationDatabase:
    url = service.create_database(name)
    application = ApplicationDatabase(ExternalAddress(SOURCE, "mysql", url), lambda: service.connect(name))
    with closing(application.connect()) as conn:
        create_schema(conn, "mysql")
    return application


def postgres_application(server: PostgresServer, *, notify: bool = False) -> ApplicationDatabase:
    url = server.create()
    application = ApplicationDatabase(ExternalAddress(SOURCE, "postgres", url), lambda: psycopg.connect(url))
    with closing(application.connect()) as conn:
        create_schema(conn, "postgresql", notify=notify)
    return application


def end_listeners(server: PostgresServer) -> None:
    """End the connections that listen for notifications."""
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'restante listener'")
