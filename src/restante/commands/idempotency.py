"""Idempotency keys: a request that is sent again under its key is answered as it was the first time, and does nothing.

The key is its caller's own, and is kept in the transaction of what it did: there is no moment in which the one is
there without the other. A request that failed did nothing and leaves no key.
"""

import hashlib
from typing import ClassVar

from restante.core.errors import BadInput, Unprocessable
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

KEY_CHARACTERS_MAX = 255
KEEP_SECONDS = 48 * 3600


class KeyReused(Unprocessable):
    """This Idempotency-Key was used for another request."""

    code: ClassVar[str] = "IDEMPOTENCY_KEY_REUSED"


def checked_key(key: str) -> str:
    if not 1 <= len(key) <= KEY_CHARACTERS_MAX or not key.isascii() or not key.isprintable():
        raise BadInput("Idempotency-Key", f"1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


def answer_to(conn: Connection, actor: str, key: str, body: bytes) -> str | None:
    """What the same request was answered; None if it is new, KeyReused if the key was another request's."""
    row = conn.one(SQL.find, actor=actor, key=key)
    if row is None:
        return None
    if row["body_hash"] != _digest(body):
        raise KeyReused()
    return str(row["answer"])


def remember(conn: Connection, actor: str, key: str, body: bytes, answer: str) -> None:
    conn.run(SQL.insert, actor=actor, key=key, body_hash=_digest(body), answer=answer, now_ms=conn.now_ms)


def forget_old(conn: Connection) -> int:
    """Clear the keys whose time is over; how many there were. Meant to be run now and then."""
    return conn.run(SQL.forget, before=conn.now_ms - KEEP_SECONDS * 1000)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
