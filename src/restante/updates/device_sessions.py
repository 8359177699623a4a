"""How a device comes by its tokens: by registering, by an approved device code, by a refresh token.

Each is one function over a connection, so that what proves the device's right and what it gets for it are
of one transaction. Access tokens are not made here: signing them is work for after the commit.
"""

from typing import NamedTuple

from restante.core.errors import NotAllowed
from restante.database.connection import Connection
from restante.identity import device_codes, refresh_tokens, registration_codes, users
from restante.identity.device_codes import Approved, NotTheirDevice, Standing
from restante.identity.refresh_key import RefreshKey
from restante.updates import devices
from restante.updates.devices import Details, Device


class Registered(NamedTuple):
    device: Device
    refresh_token: str


class MayRegister(NamedTuple):
    """A person approved; the device registers with this code."""

    user_id: int
    registration_code: str


class MayCall(NamedTuple):
    """A person approved, and the device they approved is already registered."""

    user_id: int
    device_id: int
    refresh_token: str


def register_for_user(
    conn: Connection, user_id: int, details: Details, refresh_key: RefreshKey, refresh_token_seconds: int
) -> Registered:
    """The user registers a device; NotFound if there is no such user."""
    users.require(conn, user_id)
    device = devices.register(conn, user_id, details)
    token = refresh_tokens.start_family(conn, refresh_key, user_id, device.id, refresh_token_seconds)
    return Registered(device, token)


def register_with_code(
    conn: Connection,
    code: str,
    user_id: int | None,
    details: Details,
    refresh_key: RefreshKey,
    refresh_token_seconds: int,
) -> Registered:
    """A device registers itself for the user whose code it shows. Where that fails, the code stays unused."""
    owner_id = registration_codes.redeem(conn, code)
    if user_id not in (None, owner_id):
        raise NotAllowed("the registration code is another user's")
    return register_for_user(conn, owner_id, details, refresh_key, refresh_token_seconds)


def poll(
    conn: Connection, device_code: str, device_id: int | None, refresh_key: RefreshKey, refresh_token_seconds: int
) -> Standing | NotTheirDevice | MayRegister | MayCall:
    """How a device code stands, and what it gives when it is approved."""
    standing = device_codes.poll(conn, device_code, device_id)
    if not isinstance(standing, Approved):
        return standing
    if device_id is None:
        return MayRegister(standing.user_id, registration_codes.create(conn, standing.user_id))
    token = refresh_tokens.start_family(conn, refresh_key, standing.user_id, device_id, refresh_token_seconds)
    return MayCall(standing.user_id, device_id, token)
