"""The one question identity has about devices: is this one active and this user's?

Absent, another's and revoked are the same answer. What else a device is, is the business of
updates/devices.py.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


def is_active(conn: Connection, device_id: int, user_id: int) -> bool:
    return conn.one(SQL.active_device_of, device_id=device_id, user_id=user_id) is not None
