"""Ownership checks that every operator route makes before it changes anything.

A missing device and another user's device both raise NotFound. A revoked device gets no signals, so a change that would
send it one is refused.
"""

from dataclasses import dataclass

from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.people import users

SQL = queries_beside(__file__)


@dataclass(frozen=True, slots=True)
class OwnedDevice:
    id: int
    device_keyfp: bytes
    revoked_at: int | None


def check_user(conn: Connection, user_id: int) -> int:
    """Check that the user exists; returns the database's time, for work between two transactions."""
    users.check_exists(conn, user_id)
    return conn.now_ms


def get_owned_device(conn: Connection, user_id: int, device_id: int) -> OwnedDevice:
    row = conn.one(SQL.find_device, user_id=user_id, device_id=device_id)
    if row is None:
        raise NotFound("there is no such device")
    return OwnedDevice(**row)


def get_active_device(conn: Connection, user_id: int, device_id: int) -> OwnedDevice:
    device = get_owned_device(conn, user_id, device_id)
    if device.revoked_at is not None:
        raise Conflict("the device is revoked")
    return device
