"""A table for tests, and plain functions that write to it."""

from restante.database.connection import Connection
from restante.database.queries import Query

CREATE = "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL UNIQUE);"
ADD = Query("add", "INSERT INTO notes (text) VALUES (:text)")
ALL = Query("all", "SELECT text FROM notes ORDER BY id")


class Refused(Exception):
    """A domain error."""


def add(conn: Connection, text: str) -> str:
    conn.run(ADD, text=text)
    return text


def add_with_event(conn: Connection, text: str) -> None:
    add(conn, text)
    conn.add_commit_event(text)


def add_then_refuse(conn: Connection, text: str) -> None:
    add_with_event(conn, text)
    raise Refused(text)


def refuse(conn: Connection) -> None:
    raise Refused("without changes")


def everything(conn: Connection) -> list[str]:
    return [row["text"] for row in conn.all(ALL)]
