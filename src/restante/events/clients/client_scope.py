"""Which clients a caller's grants open. A resource of another client is refused with the error of a missing one."""

import msgspec

from restante.core.errors import NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds

SQL = queries_beside(__file__)


def check_client(allowed: AllowedIds, client_id: str, message: str = "there is no such client") -> None:
    if client_id not in allowed:
        raise NotFound(message)


def row_ids(conn: Connection, allowed: AllowedIds) -> str | None:
    """The rows of the allowed clients, as a JSON list for a query; None if all are allowed."""
    if allowed.ids is None:
        return None
    rows = [conn.one(SQL.client_row, client_id=client_id) for client_id in sorted(allowed.ids, key=str)]
    return msgspec.json.encode([row["id"] for row in rows if row is not None]).decode()
