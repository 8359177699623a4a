"""Callers: a device, a collector, a client of event polling, a person, a program with an API key, a local user.

The grants of a person or an API key decide what it may do (see grants.py). The callers of polls are NamedTuples: they
are created and read on hot paths.
"""

from dataclasses import dataclass
from typing import NamedTuple

from restante.database.commit_events import ClusterMessage
from restante.identity.grants import Grants
from restante.identity.grants import Role as Role


class DeviceCaller(NamedTuple):
    """A device with a valid access token. At verification the device was active and belonged to the user."""

    device_id: int
    user_id: int
    expires_at: float  # seconds since the epoch; when to verify again: the token's own end or sooner


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is signed in with a session cookie."""

    user_id: int
    email: str
    grants: Grants

    @property
    def role(self) -> Role:
        """The highest role of the person's grants."""
        return self.grants.role


@dataclass(frozen=True, slots=True)
class ApiKeyCaller:
    """A program with an API key, within its grants.

    A key of a user acts for that user only, and never with grants that the user does not have now. A key without a user
    acts for every user. `made_by` is the person who made the key over HTTP, if one did.
    """

    key_id: int
    name: str
    grants: Grants
    user_id: int | None = None
    made_by: int | None = None

    @property
    def role(self) -> Role:
        """The highest role of the key's grants."""
        return self.grants.role


@dataclass(frozen=True, slots=True)
class LocalAdministrator:
    """A user of the server's own operating system, connected to the Unix socket in the data folder.

    Acts for every user, with the role admin for everything, but is no signed-in person: cannot approve.
    """

    name: str
    user_id: None = None

    @property
    def grants(self) -> Grants:
        return _EVERYTHING

    @property
    def role(self) -> Role:
        return Role.admin


_EVERYTHING = Grants.everywhere(Role.admin)


class CollectorCaller(NamedTuple):
    """A collector of a site. Its token was not revoked at verification."""

    device_id: int
    site_id: int
    zone_id: int | None  # a collector of one zone receives the commands of that zone only
    token_hash: bytes | None = None  # identifies the token; None where the caller came without one


class ClientCaller(NamedTuple):
    """A client of event polling. Its access token was valid at verification."""

    id: int  # the id of its row
    client_id: str  # the id it uses itself
    scopes: frozenset[str]
    # The certificate the token is bound to (RFC 8705 `x5t#S256`): a request must come with it. None: not bound.
    thumbprint: str | None
    expires_at: float  # seconds since the epoch


class ClientRevoked(ClusterMessage, frozen=True, tag="client"):
    """A client lost access: caches drop its tokens."""

    id: int


class CollectorRevoked(ClusterMessage, frozen=True, tag="collector"):
    """A collector lost its token: caches drop it."""

    device_id: int


class DeviceRevoked(ClusterMessage, frozen=True, tag="device"):
    """A device was revoked: caches drop its tokens."""

    device_id: int


# Callers with grants.
Operator = Person | ApiKeyCaller | LocalAdministrator
Caller = DeviceCaller | CollectorCaller | ClientCaller | Operator
