"""Device codes: how a device without a keyboard is let in by a person elsewhere (as in RFC 8628).

                 ┌─▶ denied ────▶ access_denied
    pending ─────┤
    │            └─▶ approved ──▶ ready, once ──▶ consumed: expired
    └─▶ its time is over: expired

The device polls with the device code, which only it knows; the person types the user code, which is short,
and worth nothing to anybody who is not signed in. A poll that comes sooner than the agreed interval is told
to slow down and changes nothing.
"""

import json
import secrets
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from restante.core.errors import NotFound, Unavailable
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import device_owners, secret_tokens

SQL = queries_beside(__file__)

# Consonants only: none looks like a digit or another letter, and they spell no words.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_LENGTH = 8
_USER_CODE_TRIES = 5
KEEP_EXPIRED_SECONDS = 24 * 3600


class Started(NamedTuple):
    device_code: str
    user_code: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a person is told before they answer."""

    user_code: str
    scopes: list[str]
    address: str
    user_agent: str
    expires_at: int


class Standing(Enum):
    """What a poll is told while there is nothing to hand over."""

    authorization_pending = "authorization_pending"
    slow_down = "slow_down"
    access_denied = "access_denied"
    expired = "expired"


class Approved(NamedTuple):
    user_id: int


class NotTheirDevice(NamedTuple):
    """The poll named a device that the person who approved does not have, or that is revoked."""


def start(
    conn: Connection,
    *,
    scopes: list[str],
    interval_seconds: int,
    expires_in: int,
    address: str,
    user_agent: str,
) -> Started:
    device_code = secret_tokens.make()
    for _ in range(_USER_CODE_TRIES):
        user_code = _new_user_code()
        row = conn.one(
            SQL.insert_code,
            device_code_hash=secret_tokens.digest(device_code),
            user_code=user_code,
            scopes=json.dumps(scopes),
            address=address,
            user_agent=user_agent,
            interval_seconds=interval_seconds,
            now_ms=conn.now_ms,
            expires_at=conn.now_ms + expires_in * 1000,
        )
        if row is not None:
            return Started(device_code, user_code)
    raise Unavailable("too many devices are waiting to be let in", retry_after_seconds=60)


def find_waiting(conn: Connection, user_code: str) -> Waiting:
    """What waits under this code, as a person typed it; NotFound if nothing does."""
    row = conn.one(SQL.waiting_code, user_code=normalised(user_code), now_ms=conn.now_ms)
    if row is None:
        raise NotFound("no device waits under this code; it may have expired")
    return Waiting(row["user_code"], json.loads(row["scopes"]), row["address"], row["user_agent"], row["expires_at"])


def decide(conn: Connection, user_code: str, user_id: int, *, approve: bool) -> None:
    """The person's answer; NotFound if nothing waits under the code (any more)."""
    status = "approved" if approve else "denied"
    code = normalised(user_code)
    if not conn.run(SQL.decide, user_code=code, status=status, user_id=user_id, now_ms=conn.now_ms):
        raise NotFound("no device waits under this code; it may have expired")


def poll(conn: Connection, device_code: str, device_id: int | None) -> Standing | Approved | NotTheirDevice:
    """How the code stands. Approved is told once: the code is consumed by it."""
    row = conn.one(SQL.find_code, device_code_hash=secret_tokens.digest(device_code))
    if row is None:
        raise NotFound("the device_code is not known")
    if row["status"] == "consumed" or row["expires_at"] <= conn.now_ms:
        return Standing.expired
    if _is_too_soon(row, conn.now_ms):
        return Standing.slow_down
    conn.run(SQL.note_poll, code_id=row["id"], now_ms=conn.now_ms)
    if row["status"] == "approved":
        return _hand_over(conn, row, device_id)
    return Standing.access_denied if row["status"] == "denied" else Standing.authorization_pending


def normalised(user_code: str) -> str:
    """The code as it is kept, whatever case, dashes and spaces it was typed with."""
    letters = "".join(character for character in user_code.upper() if character.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def forget_expired(conn: Connection) -> int:
    """Clear what expired a day ago; how many there were."""
    return conn.run(SQL.delete_expired, before_ms=conn.now_ms - KEEP_EXPIRED_SECONDS * 1000)


def _hand_over(conn: Connection, row: Row, device_id: int | None) -> Standing | Approved | NotTheirDevice:
    if device_id is not None and not device_owners.is_active(conn, device_id, row["user_id"]):
        return NotTheirDevice()
    if not conn.run(SQL.consume, code_id=row["id"]):
        return Standing.expired
    return Approved(row["user_id"])


def _is_too_soon(row: Row, now_ms: int) -> bool:
    last = row["last_polled_at"]
    return last is not None and now_ms - last < row["interval_seconds"] * 1000


def _new_user_code() -> str:
    return normalised("".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_LENGTH)))
