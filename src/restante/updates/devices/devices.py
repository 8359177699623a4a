"""The devices that poll: registration, lookup, revocation.

A user's device is identified by the public id that it chose itself. Two users may have devices with the same public id;
those are two devices. Revocation is final: it ends the device's refresh tokens in the same transaction, and its access
tokens with the commit.
"""

import base64
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from restante.core.errors import NotAllowed, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.device_presence import FIRST_POLL_SECONDS
from restante.identity import revocation_counter
from restante.identity.callers import DeviceRevoked
from restante.identity.devices import refresh_tokens
from restante.updates.pki import assignments

SQL = queries_beside(__file__)


@dataclass(frozen=True, slots=True)
class DeviceDetails:
    """A device's description of itself at registration. None: not given."""

    device_public_id: str
    dev_pk: bytes
    device_keyfp: bytes
    platform: str | None = None
    model: str | None = None
    app_version: str | None = None
    name: str | None = None
    ip: str | None = None
    user_agent: str | None = None


class Device(msgspec.Struct, frozen=True):
    """A device in the wire format."""

    id: int
    user_id: int
    device_public_id: str
    platform: str
    model: str
    app_version: str
    name: str
    status: Literal["active", "revoked"]
    device_keyfp_b64: str
    created_at: Timestamp
    updated_at: Timestamp
    last_seen_at: Timestamp | None
    revoked_at: Timestamp | None
    agent_version: str | None


def register(conn: Connection, user_id: int, details: DeviceDetails) -> Device:
    """Create or update the user's device with that public id; raises NotAllowed if it was revoked."""
    known = conn.one(SQL.device_by_public_id, user_id=user_id, device_public_id=details.device_public_id)
    columns = asdict(details)
    # Of two concurrent first registrations of a device the database refuses one; its retry finds the device.
    if known is None:
        return _insert(conn, user_id, columns)
    if known["revoked_at"] is not None:
        raise NotAllowed("this device was revoked")
    del columns["device_public_id"]
    conn.run(SQL.update_device, device_id=known["id"], now_ms=conn.now_ms, **columns)
    if known["dev_pk"] != details.dev_pk:
        assignments.reset_wraps_of_device(conn, known["id"], details.device_keyfp)
    return get(conn, known["id"])


def _insert(conn: Connection, user_id: int, columns: dict[str, Any]) -> Device:
    row = conn.one(SQL.insert_device, user_id=user_id, now_ms=conn.now_ms, **columns)
    device_id = row["id"] if row is not None else 0
    conn.run(SQL.insert_presence, device_id=device_id, overdue_at=conn.now_ms + FIRST_POLL_SECONDS * 1000)
    return get(conn, device_id)


def get(conn: Connection, device_id: int, user_id: int | None = None) -> Device:
    """The device; raises NotFound if it is missing or does not belong to the given user."""
    row = conn.one(SQL.device, device_id=device_id)
    if row is None or user_id not in (None, row["user_id"]):
        raise NotFound("there is no such device")
    return _device(row)


def get_by_public_id(conn: Connection, user_id: int, device_public_id: str) -> Device:
    """The user's device with this public id; raises NotFound if there is none."""
    return _device(conn.one(SQL.device_by_public_id, user_id=user_id, device_public_id=device_public_id))


def list_by_public_id(conn: Connection, device_public_id: str, limit: int = 50) -> list[Device]:
    """The devices of all users with this public id."""
    return [_device(row) for row in conn.all(SQL.by_public_id, device_public_id=device_public_id, limit=limit)]


def list_page(conn: Connection, user_id: int | None, after: int, limit: int) -> list[Device]:
    """At most `limit` devices with a higher id than `after`: of the user, or of all users."""
    if user_id is None:
        rows = conn.all(SQL.page_of_all, after=after, limit=limit)
    else:
        rows = conn.all(SQL.page_of_user, user_id=user_id, after=after, limit=limit)
    return [_device(row) for row in rows]


def revoke(conn: Connection, device_id: int, user_id: int | None = None) -> Device:
    """End the device's access permanently. Revoking it again changes nothing."""
    get(conn, device_id, user_id)
    if conn.run(SQL.revoke_device, device_id=device_id, now_ms=conn.now_ms):
        conn.run(SQL.clear_overdue, device_id=device_id)
        refresh_tokens.end_all_of_device(conn, device_id)
        revocation_counter.increment(conn)
        conn.add_commit_event(DeviceRevoked(device_id))
    return get(conn, device_id)


def _device(row: Row | None) -> Device:
    if row is None:
        raise NotFound("there is no such device")
    return Device(
        id=row["id"],
        user_id=row["user_id"],
        device_public_id=row["device_public_id"],
        platform=row["platform"],
        model=row["model"],
        app_version=row["app_version"],
        name=row["name"],
        status="active" if row["revoked_at"] is None else "revoked",
        device_keyfp_b64=base64.b64encode(row["device_keyfp"]).decode(),
        created_at=iso_precise(row["created_at"]),
        updated_at=iso_precise(row["updated_at"]),
        last_seen_at=iso_precise(row["last_seen_at"] or None),
        revoked_at=iso_precise(row["revoked_at"]),
        agent_version=row["agent_version"],
    )
