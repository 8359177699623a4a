"""Sessions: identify a person who has signed in, with a browser or with the command line.

A session lasts a fixed time from its start. Use does not prolong it, so finding one only reads. Only the digest of its
token is stored.

The token of a command line has a prefix and comes in `Authorization`, never in a cookie; that of a browser comes in a
cookie only.
"""

import base64
import hashlib
import hmac

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.callers import Person
from restante.identity.grants import stored_grants

SQL = queries_beside(__file__)

COMMAND_LINE_PREFIX = "rp_"


def start(conn: Connection, user_id: int, lifetime_seconds: int, prefix: str = "") -> str:
    """Start a session; returns its token, which is shown once."""
    token = prefix + secret_tokens.make()
    conn.run(
        SQL.insert_session,
        token_hash=secret_tokens.digest(token),
        user_id=user_id,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return token


def find(conn: Connection, token: str) -> Person | None:
    row = conn.one(SQL.find_session, token_hash=secret_tokens.digest(token), now_ms=conn.now_ms)
    return Person(row["id"], row["email"], stored_grants(row["role"], row["grants"])) if row else None


def is_confirmed(conn: Connection, token: str, within_seconds: int) -> bool:
    """Whether the person gave the password in the last so many seconds, at sign-in or later."""
    row = conn.one(SQL.confirmed_at, token_hash=secret_tokens.digest(token))
    confirmed_at = None if row is None else row["confirmed_at"]
    return confirmed_at is not None and conn.now_ms - confirmed_at < within_seconds * 1000


def confirm(conn: Connection, token: str) -> None:
    """Record that the person gave the password again just now."""
    conn.run(SQL.confirm, token_hash=secret_tokens.digest(token), now_ms=conn.now_ms)


def end(conn: Connection, token: str) -> None:
    conn.run(SQL.delete_session, token_hash=secret_tokens.digest(token))


def delete_expired(conn: Connection) -> int:
    """Delete expired sessions; returns how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def form_token(token: str) -> str:
    """The value that proves a submitted form was rendered for this session: no other site can know it (CSRF)."""
    mac = hmac.new(token.encode("utf-8", "surrogatepass"), b"restante form", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode()


def is_form_token(token: str, submitted: str) -> bool:
    return hmac.compare_digest(form_token(token).encode(), submitted.encode("utf-8", "surrogatepass"))
