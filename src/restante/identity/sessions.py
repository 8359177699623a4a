"""Sessions: how a person who signed in is known again.

A session lasts a fixed time from its beginning and is not prolonged by use: finding one is a read and
writes nothing. Only the digest of its token is stored.
"""

import base64
import hashlib
import hmac

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.callers import Person, Role

SQL = queries_beside(__file__)

SESSION_SECONDS = 12 * 3600


def start(conn: Connection, user_id: int, lifetime_seconds: int = SESSION_SECONDS) -> str:
    """Begin a session; its token, which is told once."""
    token = secret_tokens.make()
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
    return Person(row["id"], row["email"], Role[row["role"]]) if row else None


def end(conn: Connection, token: str) -> None:
    conn.run(SQL.delete_session, token_hash=secret_tokens.digest(token))


def forget_expired(conn: Connection) -> int:
    """Clear what has expired; how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def form_token(token: str) -> str:
    """What a form of ours carries to prove that it was made for this session: no other site can know it."""
    mac = hmac.new(token.encode("utf-8", "surrogatepass"), b"restante form", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).decode()


def is_form_token(token: str, shown: str) -> bool:
    return hmac.compare_digest(form_token(token).encode(), shown.encode("utf-8", "surrogatepass"))
