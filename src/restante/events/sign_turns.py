"""Whose events are signed next: every client that waits has its turn in every batch, however much another has waiting.

    a   1 2 3 4 5 …  100000 ┐
    b   9                   ├─▶ a batch: the oldest of each, the same share for all; what is left of it for who has more
    c   7 8                 ┘

Within a client the oldest come first. A round goes through everything that is unsigned when it comes by: it remembers
how far it has come with each client, so that what it could not sign is not in its way until the next round. Rows that
another node has claimed (`sign_claims.py`) are passed over.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


class Place(NamedTuple):
    """How far a round has come: the last row it took of each client, and the client after whom it goes on."""

    reached: dict[int, int]
    beyond: int = 0


START = Place({})


def choose(conn: Connection, place: Place, limit: int) -> tuple[list[Row], Place]:
    """Rows to be signed, of as many clients as possible, and where the next batch begins; none if there are no more."""
    for clients in _pages(conn, place, limit):
        rows = _shared_out(conn, clients, place.reached, limit)
        if rows:
            # Where not every client has room in one batch, the next one goes on with those after it.
            beyond = clients[-1] if len(clients) == limit else 0
            return rows, Place(place.reached | {row["client"]: row["id"] for row in rows}, beyond)
    return [], Place(place.reached)


def is_any_left(conn: Connection, place: Place, limit: int) -> bool:
    """Whether `choose` would find something."""
    return any(_of_each(conn, clients, place.reached, 1) for clients in _pages(conn, place, limit))


def _pages(conn: Connection, place: Place, limit: int) -> Iterator[list[int]]:
    """The clients that wait, from where the round is to the end; then once from the start."""
    for beyond in (place.beyond, 0) if place.beyond else (0,):
        clients = _waiting(conn, beyond, limit)
        while clients:
            yield clients
            clients = _waiting(conn, clients[-1], limit) if len(clients) == limit else []


def _waiting(conn: Connection, beyond: int, limit: int) -> list[int]:
    return [row["client"] for row in conn.all(SQL.waiting, beyond=beyond, limit=limit)]


def _shared_out(conn: Connection, clients: list[int], reached: dict[int, int], limit: int) -> list[Row]:
    """The oldest rows of each, equally many; and again of those who have more, as long as there is room."""
    rows: list[Row] = []
    while clients and (room := limit - len(rows)):
        share = max(1, room // len(clients))
        found = _of_each(conn, clients[:room], reached, share)
        rows += found
        reached = reached | {row["client"]: row["id"] for row in found}
        counts = Counter(row["client"] for row in found)
        clients = [client for client in clients if counts[client] == share]
    return rows


def _of_each(conn: Connection, clients: list[int], reached: dict[int, int], share: int) -> list[Row]:
    turns = [{"client": client, "after": reached.get(client, 0)} for client in clients]
    return conn.all(SQL.of_each, turns=msgspec.json.encode(turns).decode(), share=share, now_ms=conn.now_ms)
