"""Checks whether a device is active and belongs to a user: all that identity needs to know about devices.

A missing device, another user's device and a revoked device give the same result. Everything else about devices is in
updates/devices.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import revocation_counter
from restante.identity.callers import DeviceRevoked

SQL = queries_beside(__file__)

_encode = msgspec.json.Encoder().encode


class Owned(NamedTuple):
    """A device, and the user that it must belong to."""

    device_id: int
    user_id: int


def is_active(conn: Connection, device_id: int, user_id: int) -> bool:
    return token_generation(conn, device_id, user_id) is not None


def token_generation(conn: Connection, device_id: int, user_id: int) -> int | None:
    """The generation of the access tokens that count for the device, None if it is not active or not the user's."""
    row = conn.one(SQL.active_device_of, device_id=device_id, user_id=user_id)
    return None if row is None else row["token_generation"]


def token_generations(conn: Connection, owned: Iterable[Owned]) -> dict[Owned, int]:
    """As `token_generation`, for many devices in one statement; the result lacks those that are not active."""
    wanted = set(owned)
    devices = _encode([each.device_id for each in wanted]).decode()
    rows = {
        Owned(row["id"], row["user_id"]): row["token_generation"]
        for row in conn.all(SQL.active_devices, devices=devices)
    }
    return {each: rows[each] for each in wanted & rows.keys()}


def end_access_tokens(conn: Connection, device_id: int) -> None:
    """End every access token that was issued to the device so far. It stays active, and may get new ones."""
    conn.run(SQL.next_token_generation, device_id=device_id)
    revocation_counter.increment(conn)
    conn.add_commit_event(DeviceRevoked(device_id))
