"""A counter that every revocation of access increments, in its own transaction.

A process that caches verified tokens compares the counter with the value it last read, and empties its caches when
another process has incremented it.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


def increment(conn: Connection) -> None:
    conn.run(SQL.increment)


def current(conn: Connection) -> int:
    row = conn.one(SQL.current_revision)
    return int(row["value"]) if row else 0
