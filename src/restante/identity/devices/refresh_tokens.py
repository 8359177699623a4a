"""Refresh tokens: each token is exchanged once for its successor; a token used twice ends the whole family.

    token's counter = stored    the newest token: exchanged, and the next counter is stored
    token's counter < stored    exchanged before, so a theft or a copy: the family ends
    token's counter > stored    the database is older than the token (restored from a backup): exchanged as the newest

A family is one row with the digest of its name and the counter of its newest token, so a device that refreshes every
hour for years still costs one row. A token's content is trusted because its MAC is checked first (see refresh_key.py):
a forged token is unknown and ends no family.

Invariant: of several concurrent exchanges of the same token, exactly one gets its successor.
"""

import secrets
from dataclasses import dataclass
from enum import Enum

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.devices import device_owners
from restante.identity.devices.refresh_key import FAMILY_BYTES, RefreshKey
from restante.identity.secret_tokens import digest_bytes

SQL = queries_beside(__file__)

FIRST_COUNTER = 1


class RefreshRefusal(Enum):
    """The reason why a token was not exchanged. Returned, not raised: the end of the family must be committed."""

    unknown = "the refresh token is not known, has expired or was revoked"
    rotated = "the refresh token was already used; its family is revoked"
    device_inactive = "the device is revoked"


@dataclass(frozen=True, slots=True)
class RefreshExchange:
    user_id: int
    device_id: int
    refresh_token: str
    # Of the access token that goes with it.
    generation: int = 0


def start_family(conn: Connection, key: RefreshKey, user_id: int, device_id: int, lifetime_seconds: int) -> str:
    """Start a device's new session in place of its old one; returns the first refresh token."""
    conn.lock("device", device_id)
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="superseded")
    family = secrets.token_bytes(FAMILY_BYTES)
    conn.run(
        SQL.insert_family,
        family_hash=digest_bytes(family),
        counter=FIRST_COUNTER,
        user_id=user_id,
        device_id=device_id,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return key.write(family, FIRST_COUNTER)


def exchange(conn: Connection, key: RefreshKey, token: str, lifetime_seconds: int) -> RefreshExchange | RefreshRefusal:
    """The token's successor, or the reason why there is none."""
    parts = key.read(token)
    if parts is None:
        return RefreshRefusal.unknown
    family_hash = digest_bytes(parts.family)
    family = conn.one(SQL.find_family, family_hash=family_hash)
    if family is None or family["expires_at"] <= conn.now_ms:
        return RefreshRefusal.unknown
    refusal = _refusal(conn, family, parts.counter)
    if refusal is not None:
        return refusal
    if not _advance(conn, family_hash, parts.counter, lifetime_seconds):
        conn.run(SQL.end_family, family_hash=family_hash, now_ms=conn.now_ms, end_reason="used_twice")
        # The thief may hold access tokens, too.
        device_owners.end_access_tokens(conn, family["device_id"])
        return RefreshRefusal.rotated
    successor = key.write(parts.family, parts.counter + 1)
    generation = device_owners.token_generation(conn, family["device_id"], family["user_id"]) or 0
    return RefreshExchange(family["user_id"], family["device_id"], successor, generation)


def belongs_to(conn: Connection, key: RefreshKey, token: str, user_id: int, device_id: int) -> bool:
    """Whether the token is an authentic one of this user's device; it may have been used or revoked."""
    parts = key.read(token)
    if parts is None:
        return False
    family = conn.one(SQL.find_family, family_hash=digest_bytes(parts.family))
    return family is not None and (family["user_id"], family["device_id"]) == (user_id, device_id)


def end_all_of_device(conn: Connection, device_id: int) -> None:
    """End every family of a revoked device: its tokens are no longer exchanged."""
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="device_revoked")


def delete_expired(conn: Connection) -> int:
    """Delete expired families; returns how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def _refusal(conn: Connection, family: Row, counter: int) -> RefreshRefusal | None:
    """The reason why no token of this family is exchanged, None if there is none."""
    if not device_owners.is_active(conn, family["device_id"], family["user_id"]):
        return RefreshRefusal.device_inactive
    if family["revoked_at"] is None:
        return None
    # A newer session replaced this one: its last token counts as used.
    is_used = counter < family["counter"] or family["end_reason"] == "superseded"
    return RefreshRefusal.rotated if is_used else RefreshRefusal.unknown


def _advance(conn: Connection, family_hash: bytes, counter: int, lifetime_seconds: int) -> bool:
    """Store the successor's counter as the newest; False if this token was exchanged already."""
    changed = conn.run(
        SQL.advance,
        family_hash=family_hash,
        counter=counter,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return changed == 1
