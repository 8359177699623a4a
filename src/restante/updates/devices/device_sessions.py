"""The ways in which a device gets its tokens: registration, and an approved device code.

Each way is one function over a connection, so that the proof (a code) and the result (a refresh token) belong to one
transaction. These functions make no access tokens: `make_token_pair` signs one after the commit.
"""

from dataclasses import dataclass

import msgspec

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.connection import Connection
from restante.identity.devices import device_codes, device_owners, refresh_tokens, registration_codes
from restante.identity.devices.device_codes import Approved, DeviceCodeKey, DeviceCodeStatus, ForeignDevice
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshRefusal
from restante.identity.people import users
from restante.updates.devices import devices
from restante.updates.devices.devices import Device, DeviceDetails


class TokenPair(msgspec.Struct, frozen=True):
    """A device's tokens in the wire format."""

    access_token: str
    refresh_token: str
    token_type: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class DeviceSession:
    device: Device
    refresh_token: str
    generation: int


@dataclass(frozen=True, slots=True)
class RegistrationApproval:
    """A person approved a device that is not registered yet: it may register with this code."""

    user_id: int
    registration_code: str


@dataclass(frozen=True, slots=True)
class SessionApproval:
    """A person approved a device that is already registered."""

    user_id: int
    device_id: int
    refresh_token: str
    generation: int


def make_token_pair(
    tokens: DeviceTokens, user_id: int, device_id: int, refresh_token: str, generation: int
) -> TokenPair:
    """The refresh token with a newly signed access token."""
    access_token = tokens.mint(user_id, device_id, generation)
    return TokenPair(access_token, refresh_token, "Bearer", tokens.access_token_seconds)


def register_for_user(
    conn: Connection, user_id: int, details: DeviceDetails, refresh_key: RefreshKey, refresh_token_seconds: int
) -> DeviceSession:
    """Register a device for a user; raises NotFound if there is no such user."""
    users.check_exists(conn, user_id)
    device = devices.register(conn, user_id, details)
    token = refresh_tokens.start_family(conn, refresh_key, user_id, device.id, refresh_token_seconds)
    return DeviceSession(device, token, device_owners.token_generation(conn, device.id, user_id) or 0)


def register_with_code(
    conn: Connection,
    code: str,
    user_id: int | None,
    details: DeviceDetails,
    refresh_key: RefreshKey,
    refresh_token_seconds: int,
) -> DeviceSession:
    """Register a device for the user of the registration code. If that fails, the code stays unused."""
    owner_id = registration_codes.redeem(conn, code)
    if user_id not in (None, owner_id):
        raise NotAllowed("the registration code is another user's")
    return register_for_user(conn, owner_id, details, refresh_key, refresh_token_seconds)


def register_again(
    conn: Connection,
    user_id: int,
    refresh_token: str,
    details: DeviceDetails,
    refresh_key: RefreshKey,
    refresh_token_seconds: int,
) -> DeviceSession | RefreshRefusal:
    """Register a device that the user has already, with its refresh token, which is exchanged for the next one.

    A refusal is returned, not raised: the end of a token that was used twice must be committed. The description of the
    device stays unchanged then.
    """
    known = devices.get_by_public_id(conn, user_id, details.device_public_id)
    if not refresh_tokens.belongs_to(conn, refresh_key, refresh_token, user_id, known.id):
        raise NotAuthenticated("the refresh token is not one of this device")
    exchanged = refresh_tokens.exchange(conn, refresh_key, refresh_token, refresh_token_seconds)
    if isinstance(exchanged, RefreshRefusal):
        return exchanged
    return DeviceSession(devices.register(conn, user_id, details), exchanged.refresh_token, exchanged.generation)


def poll(
    conn: Connection,
    code_key: DeviceCodeKey,
    device_code: str,
    device_id: int | None,
    refresh_key: RefreshKey,
    refresh_token_seconds: int,
) -> DeviceCodeStatus | ForeignDevice | RegistrationApproval | SessionApproval:
    """The status of a device code; if it is approved, a registration code or, for a known device, its tokens."""
    result = device_codes.poll(conn, code_key, device_code, device_id)
    if not isinstance(result, Approved):
        return result
    if device_id is None:
        return RegistrationApproval(result.user_id, registration_codes.create(conn, result.user_id))
    token = refresh_tokens.start_family(conn, refresh_key, result.user_id, device_id, refresh_token_seconds)
    generation = device_owners.token_generation(conn, device_id, result.user_id) or 0
    return SessionApproval(result.user_id, device_id, token, generation)
