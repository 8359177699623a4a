"""Who is calling: a device, a collector, a client of event polling, a person or the holder of an API key.

What people and keys may do is their role's to say.
"""

from enum import IntEnum
from typing import NamedTuple


class Role(IntEnum):
    """Each role may do what those before it may."""

    viewer = 1
    operator = 2
    approver = 3
    admin = 4


class DeviceCaller(NamedTuple):
    """A device with a valid access token, active and its user's at the time of verification."""

    device_id: int
    user_id: int
    expires_at: float  # seconds since the epoch; the token's own end, or sooner: when to look again


class Person(NamedTuple):
    """Somebody signed in with a session cookie."""

    user_id: int
    email: str
    role: Role


class KeyHolder(NamedTuple):
    """A program with an API key. A key is nobody's in particular and acts for every user, within its role."""

    key_id: int
    name: str
    role: Role


class CollectorCaller(NamedTuple):
    """A collector of a site, with a token that was not revoked at the time of verification."""

    device_id: int
    site_id: int
    zone_id: int | None  # a collector of one zone is handed that zone's commands only
    token_hash: bytes | None = None  # which token it was; None for who needs none


class ClientCaller(NamedTuple):
    """A client of event polling, with an access token that held at the time of verification."""

    id: int  # its row
    client_id: str  # its name outside
    scopes: frozenset[str]
    # The certificate the token is bound to (RFC 8705 `x5t#S256`): a call must come with it. None: bound to none.
    thumbprint: str | None
    expires_at: float  # seconds since the epoch


class ClientRevoked(NamedTuple):
    """Announced by the commit that ends access of a client: whoever remembers its tokens forgets them."""

    id: int


class CollectorRevoked(NamedTuple):
    """Announced by the commit that ends a collector's token: whoever remembers it forgets it."""

    device_id: int


class DeviceRevoked(NamedTuple):
    """Announced by the commit that revokes a device: whoever remembers its tokens forgets them."""

    device_id: int


Caller = DeviceCaller | CollectorCaller | ClientCaller | Person | KeyHolder
