"""Chooses the next batch of events to sign: every client with unsigned events gets a share of every batch.

    a   1 2 3 4 5 …  100000 ┐
    b   9                   ├─▶ a batch: equal shares of the oldest of each; room that is left goes to clients with more
    c   7 8                 ┘

A client's oldest events come first. A round visits all unsigned events: `RoundPosition` records the last event taken
from each client, so that events that could not be signed are skipped until the next round. Events that another node
has leased (`signing_leases`) are skipped.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


@dataclass(frozen=True, slots=True)
class RoundPosition:
    """The progress of a round: the last event taken from each client, and the client after which it continues."""

    last_ids: dict[int, int]
    after_client: int = 0


ROUND_START = RoundPosition({})


def next_batch(conn: Connection, position: RoundPosition, limit: int) -> tuple[list[Row], RoundPosition]:
    """Return events of as many clients as possible, and the position after them; no events at the end of the round."""
    for clients in _client_pages(conn, position, limit):
        rows = _share(conn, clients, position.last_ids, limit)
        if rows:
            # If one batch has no room for every client, the next batch starts with the client after this one.
            after_client = clients[-1] if len(clients) == limit else 0
            return rows, RoundPosition(position.last_ids | {row["client"]: row["id"] for row in rows}, after_client)
    return [], RoundPosition(position.last_ids)


def has_more(conn: Connection, position: RoundPosition, limit: int) -> bool:
    """Return whether `next_batch` would return any event."""
    return any(_oldest_of_each(conn, clients, position.last_ids, 1) for clients in _client_pages(conn, position, limit))


def _client_pages(conn: Connection, position: RoundPosition, limit: int) -> Iterator[list[int]]:
    """Yield pages of clients with unsigned events, from the position to the last client, then once from the first."""
    for after_client in (position.after_client, 0) if position.after_client else (0,):
        clients = _clients_with_unsigned(conn, after_client, limit)
        while clients:
            yield clients
            clients = _clients_with_unsigned(conn, clients[-1], limit) if len(clients) == limit else []


def _clients_with_unsigned(conn: Connection, after_client: int, limit: int) -> list[int]:
    return [row["client"] for row in conn.all(SQL.clients_with_unsigned, after_client=after_client, limit=limit)]


def _share(conn: Connection, clients: list[int], last_ids: dict[int, int], limit: int) -> list[Row]:
    """Return equally many events of each client, then more of those that have more, while there is room."""
    rows: list[Row] = []
    while clients and (room := limit - len(rows)):
        share = max(1, room // len(clients))
        found = _oldest_of_each(conn, clients[:room], last_ids, share)
        rows += found
        last_ids = last_ids | {row["client"]: row["id"] for row in found}
        counts = Counter(row["client"] for row in found)
        clients = [client for client in clients if counts[client] == share]
    return rows


def _oldest_of_each(conn: Connection, clients: list[int], last_ids: dict[int, int], share: int) -> list[Row]:
    starts = [{"client": client, "after": last_ids.get(client, 0)} for client in clients]
    return conn.all(SQL.oldest_of_each, starts=msgspec.json.encode(starts).decode(), share=share, now_ms=conn.now_ms)
