"""Clients and events for push tests: inbox rows with fake tokens, because push does not check signatures."""

from typing import Any
from uuid import uuid4

from restante.core.events.poll_acks import Verdicts
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.inbox import inbox
from restante.events.inbox.inbox import NewEvent, SignedEvent
from tests.events.inbox_fixture import token_of

_ADD_CLIENT = Query(
    "add_client",
    """INSERT INTO event_clients
    (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)
    VALUES (:client_id, 'a client', 'client_secret_basic', 'eventpolling ssf.read ssf.manage', 'PS256', 1)
    RETURNING id""",
)
_CLIENT_ID = Query("client_id", "SELECT client_id FROM event_clients WHERE id = :client")
_SUSPEND = Query("suspend", "UPDATE event_clients SET suspended_at = :at WHERE id = :client")
_EVENT = Query("event", "SELECT * FROM event_inbox WHERE jti = :jti")
_RECEIVER = Query("receiver", "SELECT * FROM event_receivers WHERE client = :client AND profile = :profile")


def add_client(database: Database) -> int:
    return database.write_now(_returned_id, _ADD_CLIENT, {"client_id": f"client-{uuid4()}"})


def client_id_of(database: Database, client: int) -> str:
    return str(database.read_now(_row, _CLIENT_ID, {"client": client})["client_id"])


def add_event(
    database: Database,
    client: int,
    *,
    status: str = "ready",
    profile: str = "open-banking",
    stream: int | None = None,
    is_to_be_pushed: bool = True,
) -> str:
    """Add an event with `token_of` its jti; return the jti."""

    def add(conn: Connection) -> str:
        jti = uuid4().hex
        inbox.add_events(conn, [NewEvent(client, jti, "t", '["urn:x:y"]', "{}", profile, stream)])
        if status == "ready":
            push_at = conn.now_ms if is_to_be_pushed else None
            inbox.make_ready(
                conn, [SignedEvent(_row(conn, _EVENT, {"jti": jti})["id"], client, token_of(jti), "kid", push_at)]
            )
        return jti

    return database.write_now(add)


def event_of(database: Database, jti: str) -> dict[str, Any]:
    return database.read_now(_row, _EVENT, {"jti": jti})


def receiver_of(database: Database, client: int, profile: str = "open-banking") -> dict[str, Any]:
    return database.read_now(_row, _RECEIVER, {"client": client, "profile": profile})


def sign(database: Database, jti: str) -> None:
    """Make the event ready and due for push, as the signer does."""
    event = event_of(database, jti)

    def make_ready(conn: Connection) -> None:
        signed = SignedEvent(event["id"], event["client"], token_of(jti), "kid", conn.now_ms)
        inbox.make_ready(conn, [signed])

    database.write_now(make_ready)


def acknowledge(database: Database, jti: str) -> None:
    """Acknowledge the event, as a poll does."""
    database.write_now(inbox.apply_verdicts, event_of(database, jti)["client"], Verdicts([jti], {}))


def suspend(database: Database, client: int, at: int | None = 1) -> None:
    database.write_now(_run, _SUSPEND, {"client": client, "at": at})


def _returned_id(conn: Connection, query: Query, values: dict[str, Any]) -> int:
    row = conn.one(query, **values)
    assert row is not None
    return int(row["id"])


def _row(conn: Connection, query: Query, values: dict[str, Any]) -> dict[str, Any]:
    row = conn.one(query, **values)
    return {} if row is None else dict(**row)


def _run(conn: Connection, query: Query, values: dict[str, Any]) -> None:
    conn.run(query, **values)
