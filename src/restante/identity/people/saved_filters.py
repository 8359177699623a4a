"""Saved filters: parameters of a list of the console that a person keeps under a name, for themselves.

A saved filter is part of an address, not a right: the list checks what the person may see each time it is opened. Does
not know which lists there are and what their parameters mean. Filters of devices are groups, which everybody shares.
"""

import re

import msgspec

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Of one list, for one person.
FILTERS_MAX = 50
QUERY_CHARACTERS_MAX = 2000
EXPECTED_NAME = "1 to 63 characters, no control characters"
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,63}")


class SavedFilter(msgspec.Struct, frozen=True):
    id: int
    list: str
    name: str
    query: str


def filters_of(conn: Connection, user_id: int, list_name: str) -> list[SavedFilter]:
    return [SavedFilter(**dict(row)) for row in conn.all(SQL.filters_of, user_id=user_id, list=list_name)]


def save(conn: Connection, user_id: int, list_name: str, name: str, query: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadInput("name", EXPECTED_NAME)
    if not query or len(query) > QUERY_CHARACTERS_MAX:
        raise BadInput("filter", f"at least one field, and at most {QUERY_CHARACTERS_MAX} characters")
    conn.lock("saved filters", user_id)
    if len(filters_of(conn, user_id, list_name)) >= FILTERS_MAX:
        raise Conflict(f"you have {FILTERS_MAX} saved filters of this list already, which is the most")
    values = {"user_id": user_id, "list": list_name, "name": name, "query": query}
    if conn.one(SQL.insert_filter, **values, now_ms=conn.now_ms) is None:
        raise Conflict(f"you have a saved filter {name!r} of this list already")


def delete(conn: Connection, user_id: int, filter_id: int) -> str:
    """Delete a filter of the person, and return the name of its list."""
    row = conn.one(SQL.delete_filter, id=filter_id, user_id=user_id)
    if row is None:
        raise NotFound("There is no such saved filter.")
    return str(row["list"])
