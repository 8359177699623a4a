"""Data folders for benchmarks: clients with events in their inboxes. A token is about as long as one with PS256."""

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from restante.events.inbox.inbox import place_of
from restante.identity.clients import client_tokens
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder

TOKEN_BYTES = 1400

_ADD_CLIENT = Query(
    "add_client",
    """INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)
       VALUES (:client_id, :client_id, 'client_secret_basic', 'eventpolling', 'PS256', :now_ms) RETURNING id""",
)


@dataclass(frozen=True, slots=True)
class EventData:
    """A data folder, and the access token of each client, in the order of their ids."""

    folder: DataFolder
    tokens: list[str]


def prepare(path: Path, clients: int, events_per_client: int) -> EventData:
    folder = DataFolder(path)
    folder.create()
    engine = SqliteEngine(folder.database_path)
    migrate(engine)
    MasterKeySource(folder.master_key_path, None).make()
    database = Database(engine)
    try:
        tokens = database.write_now(add_clients, clients)
    finally:
        database.close()
    add_events(folder, clients, events_per_client)
    return EventData(folder, tokens)


def add_clients(conn: Connection, count: int) -> list[str]:
    tokens = []
    for number in range(count):
        row = conn.one(_ADD_CLIENT, client_id=f"tpp-{number}", now_ms=conn.now_ms)
        assert row is not None
        tokens.append(client_tokens.issue(conn, row["id"], "eventpolling", None, 86_400))
    return tokens


def add_events(folder: DataFolder, clients: int, events_per_client: int) -> None:
    """Insert so many signed events for each client, in turn, directly and without durability."""
    now = int(time.time() * 1000)
    conn = sqlite3.connect(folder.database_path)
    conn.execute("PRAGMA synchronous = OFF")
    count = clients * events_per_client
    with conn:
        conn.executemany(
            "INSERT INTO event_inbox (id, client, jti, txn, event_types, status, profile, kid, created_at)"
            " VALUES (?, ?, ?, ?, '[\"urn:uk:org:openbanking:events:resource-update\"]', 'ready', 'open-banking', 'k',"
            " ?)",
            ((n + 1, n % clients + 1, _jti(n), f"txn-{_jti(n)}", now) for n in range(count)),
        )
        conn.executemany(
            "INSERT INTO event_texts (place, jti, text) VALUES (?, ?, ?)",
            (
                (place_of(client + 1, n + 1), _jti(n), _jti(n).ljust(TOKEN_BYTES, "x"))
                for client in range(clients)
                for n in range(client, count, clients)
            ),
        )
    conn.execute("ANALYZE")
    conn.close()


def _jti(number: int) -> str:
    # Unordered, like random ids.
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"
