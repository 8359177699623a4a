"""Clients with access tokens, and events written directly into their inboxes, signed or unsigned."""

import itertools
import json
from base64 import urlsafe_b64encode
from typing import NamedTuple

from restante.core.events.poll_acks import Fault, Verdicts
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.inbox import inbox
from restante.events.inbox.inbox import (
    OPEN_BANKING,
    InboxChanged,
    InboxPollRequest,
    NewEvent,
    SignedEvent,
)
from restante.events.signing import event_keys
from restante.identity.clients import client_tokens
from restante.identity.master_key import MasterKey
from tests.events.default_options import inbox_options

SCOPE = "eventpolling"

_numbers = itertools.count(1)
_add_client = Query(
    "add_client",
    """INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)
       VALUES (:client_id, :client_id, 'client_secret_basic', 'eventpolling', 'PS256', :now_ms) RETURNING id""",
)
_suspend = Query("suspend", "UPDATE event_clients SET suspended_at = :now_ms WHERE id = :client")
_release = Query("release", "UPDATE event_inbox SET status = 'ready' WHERE jti = :jti AND status = 'errored'")
_set_kid = Query("sign_under", "UPDATE event_inbox SET kid = :kid WHERE jti = :jti")
_acknowledge = Query("finish", "UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms WHERE jti = :jti")
_record_push_attempt = Query("note_push", "UPDATE event_inbox SET push_attempts = 1 WHERE jti = :jti")
_row = Query("row", "SELECT * FROM event_inbox WHERE jti = :jti")


class PollingClient(NamedTuple):
    """A client and its access token."""

    id: int
    client_id: str
    token: str


def add_client(
    conn: Connection, client_id: str | None = None, scope: str = SCOPE, seconds: int = 3600
) -> PollingClient:
    name = client_id or f"tpp-{next(_numbers)}"
    row = conn.one(_add_client, client_id=name, now_ms=conn.now_ms)
    assert row is not None
    return PollingClient(row["id"], name, client_tokens.issue(conn, row["id"], scope, None, seconds))


def put_unsigned(conn: Connection, client: int, *jtis: str, profile: str = OPEN_BANKING) -> list[int]:
    inbox.add_events(conn, [NewEvent(client, jti, f"txn-{jti}", "[]", "{}", profile) for jti in jtis])
    rows = [conn.one(_row, jti=jti) for jti in jtis]
    return [row["id"] for row in rows if row is not None]


def sign(conn: Connection, client: int, jti: str, token: str | None = None) -> None:
    row = conn.one(_row, jti=jti)
    assert row is not None
    inbox.make_ready(conn, [SignedEvent(row["id"], client, token or token_of(jti), "key")])


def put_ready(conn: Connection, client: int, *jtis: str, profile: str = OPEN_BANKING) -> None:
    """Add events that can be delivered, each with `token_of` its jti."""
    rows = put_unsigned(conn, client, *jtis, profile=profile)
    inbox.make_ready(
        conn, [SignedEvent(row, client, token_of(jti), "key") for row, jti in zip(rows, jtis, strict=True)]
    )


def token_of(jti: str) -> str:
    """Return a token of valid form with a fake signature."""
    claims = urlsafe_b64encode(json.dumps({"jti": jti}).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJQUzI1NiJ9.{claims}.c2lnbmF0dXJl"


def suspend(conn: Connection, client: int) -> None:
    conn.run(_suspend, client=client, now_ms=conn.now_ms)


def release(conn: Connection, client: int, jti: str) -> None:
    conn.run(_release, jti=jti)
    conn.add_commit_event(InboxChanged(client))


def status_of(database: Database, jti: str) -> str:
    row = database.read_now(lambda conn: conn.one(_row, jti=jti))
    assert row is not None
    return str(row["status"])


def set_kid(conn: Connection, jti: str, kid: str) -> None:
    """Mark the event as signed with that key."""
    conn.run(_set_kid, jti=jti, kid=kid)


def acknowledge(conn: Connection, jti: str) -> None:
    conn.run(_acknowledge, jti=jti, now_ms=conn.now_ms)


def deliver(conn: Connection, client: int, *jtis: str) -> None:
    """Poll, and check that exactly these events, the oldest, are delivered."""
    result = inbox.poll_inbox(conn, inbox_options(), InboxPollRequest(client, len(jtis)))
    assert list(result.sets) == list(jtis)


def record_push_attempt(conn: Connection, jti: str) -> None:
    """Record one push attempt."""
    conn.run(_record_push_attempt, jti=jti)


def report_errors(conn: Connection, client: int, faults: dict[str, tuple[str, str]]) -> None:
    """Poll for no events, and report these as errored."""
    errored = {jti: Fault(err, description) for jti, (err, description) in faults.items()}
    inbox.poll_inbox(conn, inbox_options(), InboxPollRequest(client, 0, Verdicts([], errored)))


def add_key(conn: Connection, master_key: MasterKey) -> str:
    """Add a signing key for event tokens; return its kid."""
    key = event_keys.generate(master_key, "EdDSA")
    event_keys.rotate(conn, key, 0, 3600, "tests")
    return key.kid
