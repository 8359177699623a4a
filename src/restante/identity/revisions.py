"""A number that every change taking away access raises, in its own transaction.

A process that remembers who may call compares it with the number it last saw, and forgets what it remembers
when another process has raised it.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


def raise_revision(conn: Connection) -> None:
    conn.run(SQL.raise_revision)


def current(conn: Connection) -> int:
    row = conn.one(SQL.current_revision)
    return int(row["value"]) if row else 0
