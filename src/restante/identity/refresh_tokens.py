"""Refresh tokens: each is exchanged once for its successor; one that is shown twice ends the whole family.

    shown = stored    the newest token: exchanged, and the next number stored
    shown < stored    exchanged before, so a theft or a copy: the family ends
    shown > stored    the database is older than the token, restored from a backup: exchanged as the newest

A family is one row with the digest of its name and the number of its newest token, so a device that refreshes every
hour for years still costs one row. What a token says is believed because it is authentic (see refresh_key.py): a
forged one is not known here and ends nobody's family.

Must always hold: of several who show the same token at once, one gets its successor.
"""

import secrets
from enum import Enum
from typing import NamedTuple

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import device_owners
from restante.identity.refresh_key import FAMILY_BYTES, RefreshKey
from restante.identity.secret_tokens import digest_bytes

SQL = queries_beside(__file__)

REFRESH_TOKEN_SECONDS = 30 * 24 * 3600
FIRST = 1


class Refusal(Enum):
    """Why a token was not exchanged. Returned, not raised: ending the family must be committed."""

    unknown = "the refresh token is not known, has expired or was revoked"
    rotated = "the refresh token was already used; its family is revoked"
    device_inactive = "the device is revoked"


class Exchange(NamedTuple):
    user_id: int
    device_id: int
    refresh_token: str


def start_family(
    conn: Connection, key: RefreshKey, user_id: int, device_id: int, lifetime_seconds: int = REFRESH_TOKEN_SECONDS
) -> str:
    """A device's new session, in place of the one it had; its first refresh token."""
    conn.lock("device", device_id)
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="superseded")
    family = secrets.token_bytes(FAMILY_BYTES)
    conn.run(
        SQL.insert_family,
        family_hash=digest_bytes(family),
        counter=FIRST,
        user_id=user_id,
        device_id=device_id,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return key.write(family, FIRST)


def exchange(
    conn: Connection, key: RefreshKey, token: str, lifetime_seconds: int = REFRESH_TOKEN_SECONDS
) -> Exchange | Refusal:
    """The token's successor, or why there is none."""
    shown = key.read(token)
    if shown is None:
        return Refusal.unknown
    family_hash = digest_bytes(shown.family)
    family = conn.one(SQL.find_family, family_hash=family_hash)
    if family is None or family["expires_at"] <= conn.now_ms:
        return Refusal.unknown
    refusal = _refusal(conn, family, shown.counter)
    if refusal is not None:
        return refusal
    if not _advance(conn, family_hash, shown.counter, lifetime_seconds):
        conn.run(SQL.end_family, family_hash=family_hash, now_ms=conn.now_ms, end_reason="used_twice")
        return Refusal.rotated
    return Exchange(family["user_id"], family["device_id"], key.write(shown.family, shown.counter + 1))


def end_all_of_device(conn: Connection, device_id: int) -> None:
    """Nothing the revoked device holds is exchanged any more."""
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="device_revoked")


def forget_expired(conn: Connection) -> int:
    """Clear what has expired; how many families there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def _refusal(conn: Connection, family: Row, counter: int) -> Refusal | None:
    """Why nothing of this family is exchanged, whichever token it is."""
    if not device_owners.is_active(conn, family["device_id"], family["user_id"]):
        return Refusal.device_inactive
    if family["revoked_at"] is None:
        return None
    # A newer session took this one's place: its last token counts as used.
    is_used = counter < family["counter"] or family["end_reason"] == "superseded"
    return Refusal.rotated if is_used else Refusal.unknown


def _advance(conn: Connection, family_hash: bytes, counter: int, lifetime_seconds: int) -> bool:
    """Make the successor of this token the newest; False if this one was exchanged already."""
    changed = conn.run(
        SQL.advance,
        family_hash=family_hash,
        counter=counter,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return changed == 1
