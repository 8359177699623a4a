"""Refresh tokens: each is exchanged once for its successor; one that is shown twice ends the whole family.

    rt_<family><secret>      family: 128 random bits, the same in every token of the family
                             secret: 256 random bits, new with every exchange

A family is one row with the digests of its name and of its newest secret. Whoever knows the name has held a
token of the family, so a known name with any other secret is an old token, shown again: a theft, or a copy.
Old secrets need not be kept to see that, and a device that refreshes every hour for years still costs one
row.

Must always hold: of several who show the same token at once, one gets its successor.
"""

import base64
import binascii
import hmac
import secrets
from enum import Enum
from typing import NamedTuple

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import device_owners
from restante.identity.secret_tokens import digest_bytes

SQL = queries_beside(__file__)

REFRESH_TOKEN_SECONDS = 30 * 24 * 3600
PREFIX = "rt_"
FAMILY_BYTES = 16
SECRET_BYTES = 32


class Refusal(Enum):
    """Why a token was not exchanged. Returned, not raised: ending the family must be committed."""

    unknown = "the refresh token is not known, has expired or was revoked"
    rotated = "the refresh token was already used; its family is revoked"
    device_inactive = "the device is revoked"


class Exchange(NamedTuple):
    user_id: int
    device_id: int
    refresh_token: str


class _Parts(NamedTuple):
    family_hash: bytes
    secret_hash: bytes


def start_family(conn: Connection, user_id: int, device_id: int, lifetime_seconds: int = REFRESH_TOKEN_SECONDS) -> str:
    """A device's new session, in place of the one it had; its first refresh token."""
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="superseded")
    family, secret = secrets.token_bytes(FAMILY_BYTES), secrets.token_bytes(SECRET_BYTES)
    conn.run(
        SQL.insert_family,
        family_hash=digest_bytes(family),
        secret_hash=digest_bytes(secret),
        user_id=user_id,
        device_id=device_id,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return _written(family, secret)


def exchange(conn: Connection, token: str, lifetime_seconds: int = REFRESH_TOKEN_SECONDS) -> Exchange | Refusal:
    """The token's successor, or why there is none."""
    raw = _read(token)
    if raw is None:
        return Refusal.unknown
    shown = _Parts(digest_bytes(raw[:FAMILY_BYTES]), digest_bytes(raw[FAMILY_BYTES:]))
    family = conn.one(SQL.find_family, family_hash=shown.family_hash)
    if family is None or family["expires_at"] <= conn.now_ms:
        return Refusal.unknown
    refusal = _refusal(conn, family, shown)
    if refusal is not None:
        return refusal
    secret = secrets.token_bytes(SECRET_BYTES)
    if not _replace(conn, shown, digest_bytes(secret), lifetime_seconds):
        return _used_twice(conn, shown)
    return Exchange(family["user_id"], family["device_id"], _written(raw[:FAMILY_BYTES], secret))


def end_all_of_device(conn: Connection, device_id: int) -> None:
    """Nothing the revoked device holds is exchanged any more."""
    conn.run(SQL.end_families_of_device, device_id=device_id, now_ms=conn.now_ms, end_reason="device_revoked")


def forget_expired(conn: Connection) -> int:
    """Clear what has expired; how many families there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def _refusal(conn: Connection, family: Row, shown: _Parts) -> Refusal | None:
    if not device_owners.is_active(conn, family["device_id"], family["user_id"]):
        return Refusal.device_inactive
    if not hmac.compare_digest(family["secret_hash"], shown.secret_hash):
        return _used_twice(conn, shown)
    if family["revoked_at"] is not None:
        # A newer session took this one's place: its last token counts as used.
        return Refusal.rotated if family["end_reason"] == "superseded" else Refusal.unknown
    return None


def _used_twice(conn: Connection, shown: _Parts) -> Refusal:
    conn.run(SQL.end_family, family_hash=shown.family_hash, now_ms=conn.now_ms, end_reason="used_twice")
    return Refusal.rotated


def _replace(conn: Connection, shown: _Parts, new_secret_hash: bytes, lifetime_seconds: int) -> bool:
    changed = conn.run(
        SQL.exchange,
        family_hash=shown.family_hash,
        secret_hash=shown.secret_hash,
        new_secret_hash=new_secret_hash,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + lifetime_seconds * 1000,
    )
    return changed == 1


def _written(family: bytes, secret: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(family + secret).decode()


def _read(token: str) -> bytes | None:
    """The bytes of a token of ours; None for anything else."""
    try:
        raw = base64.b64decode(token.removeprefix(PREFIX).encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if token.startswith(PREFIX) and len(raw) == FAMILY_BYTES + SECRET_BYTES else None
