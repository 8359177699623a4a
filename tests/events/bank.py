"""A bank in a test: clients, their access tokens, and events for them, signed or not, straight into the inbox."""

import itertools
import json
from base64 import urlsafe_b64encode
from typing import NamedTuple

from restante.core.acknowledgement import Fault, Verdicts
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import event_keys, inbox
from restante.events.inbox import OPEN_BANKING, InboxChanged, InboxOptions, NewEvent, SignedEvent, Wish
from restante.identity import client_tokens
from restante.identity.master_key import MasterKey

SCOPE = "eventpolling"

_numbers = itertools.count(1)
_add_client = Query(
    "add_client",
    """INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)
       VALUES (:client_id, :client_id, 'client_secret_basic', 'eventpolling', 'PS256', :now_ms) RETURNING id""",
)
_suspend = Query("suspend", "UPDATE event_clients SET suspended_at = :now_ms WHERE id = :client")
_release = Query("release", "UPDATE event_inbox SET status = 'ready' WHERE jti = :jti AND status = 'errored'")
_sign_under = Query("sign_under", "UPDATE event_inbox SET kid = :kid WHERE jti = :jti")
_finish = Query("finish", "UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms WHERE jti = :jti")
_note_push = Query("note_push", "UPDATE event_inbox SET push_attempts = 1 WHERE jti = :jti")
_row = Query("row", "SELECT * FROM event_inbox WHERE jti = :jti")


class Customer(NamedTuple):
    """A client of the bank, and its access token."""

    id: int
    client_id: str
    token: str


def add_client(conn: Connection, client_id: str | None = None, scope: str = SCOPE, seconds: int = 3600) -> Customer:
    name = client_id or f"tpp-{next(_numbers)}"
    row = conn.one(_add_client, client_id=name, now_ms=conn.now_ms)
    assert row is not None
    return Customer(row["id"], name, client_tokens.issue(conn, row["id"], scope, None, seconds))


def put_unsigned(conn: Connection, client: int, *jtis: str, profile: str = OPEN_BANKING) -> list[int]:
    inbox.put(conn, [NewEvent(client, jti, f"txn-{jti}", "[]", "{}", profile) for jti in jtis])
    rows = [conn.one(_row, jti=jti) for jti in jtis]
    return [row["id"] for row in rows if row is not None]


def sign(conn: Connection, client: int, jti: str, token: str | None = None) -> None:
    row = conn.one(_row, jti=jti)
    assert row is not None
    inbox.make_ready(conn, [SignedEvent(row["id"], client, token or token_of(jti), "key")])


def put_ready(conn: Connection, client: int, *jtis: str, profile: str = OPEN_BANKING) -> None:
    """Events that can be handed out, each with the token of its id."""
    rows = put_unsigned(conn, client, *jtis, profile=profile)
    inbox.make_ready(
        conn, [SignedEvent(row, client, token_of(jti), "key") for row, jti in zip(rows, jtis, strict=True)]
    )


def token_of(jti: str) -> str:
    """A token in form, for who looks at no signature."""
    claims = urlsafe_b64encode(json.dumps({"jti": jti}).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJQUzI1NiJ9.{claims}.c2lnbmF0dXJl"


def suspend(conn: Connection, client: int) -> None:
    conn.run(_suspend, client=client, now_ms=conn.now_ms)


def release(conn: Connection, client: int, jti: str) -> None:
    conn.run(_release, jti=jti)
    conn.announce(InboxChanged(client))


def status_of(database: Database, jti: str) -> str:
    row = database.read_now(lambda conn: conn.one(_row, jti=jti))
    assert row is not None
    return str(row["status"])


def sign_under(conn: Connection, jti: str, kid: str) -> None:
    """Have an event's token pass for one of that key."""
    conn.run(_sign_under, jti=jti, kid=kid)


def finish(conn: Connection, jti: str) -> None:
    conn.run(_finish, jti=jti, now_ms=conn.now_ms)


def hand_out(conn: Connection, client: int, *jtis: str) -> None:
    """A poll that is handed exactly these, which are the oldest."""
    handed = inbox.take(conn, InboxOptions(), Wish(client, len(jtis)))
    assert list(handed.sets) == list(jtis)


def note_push(conn: Connection, jti: str) -> None:
    """As if it had been pushed once, in vain."""
    conn.run(_note_push, jti=jti)


def call_wrong(conn: Connection, client: int, faults: dict[str, tuple[str, str]]) -> None:
    """A poll that says of events what is wrong with them, and wants none."""
    said = {jti: Fault(err, description) for jti, (err, description) in faults.items()}
    inbox.take(conn, InboxOptions(), Wish(client, 0, Verdicts([], said)))


def add_key(conn: Connection, master_key: MasterKey) -> str:
    """A new key that event tokens are signed with; its name."""
    key = event_keys.make(master_key, "EdDSA")
    event_keys.rotate(conn, key, 0, 3600, "tests")
    return key.kid
