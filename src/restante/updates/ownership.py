"""Whose is it: the questions every operator route asks before it changes anything.

What is absent and what is another user's look the same. A revoked device is told nothing any more, so
whatever would end in a signal to it is refused.
"""

from typing import NamedTuple

from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import users

SQL = queries_beside(__file__)


class OwnedDevice(NamedTuple):
    id: int
    device_keyfp: bytes
    revoked_at: int | None


def require_user(conn: Connection, user_id: int) -> int:
    """That there is such a user; the moment, for work that is done between two transactions."""
    users.require(conn, user_id)
    return conn.now_ms


def require_device(conn: Connection, user_id: int, device_id: int) -> OwnedDevice:
    row = conn.one(SQL.find_device, user_id=user_id, device_id=device_id)
    if row is None:
        raise NotFound("there is no such device")
    return OwnedDevice(**row)


def require_active_device(conn: Connection, user_id: int, device_id: int) -> OwnedDevice:
    device = require_device(conn, user_id, device_id)
    if device.revoked_at is not None:
        raise Conflict("the device is revoked")
    return device
