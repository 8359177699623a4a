"""Roles: what a process does of all there is to do. Without a word it does everything.

Every background service belongs to one role, named in `SERVICES`, or is needed whatever the process does. All of them
may run in several processes on one database at once: work is claimed under leases, or doing it twice changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

ROLES = {
    "api": "answers devices, collectors, clients and operators; a process without it answers health and metrics only",
    "dispatcher": "publishes signals from the outbox to the devices' logs",
    "wrapping": "encrypts data keys for the devices that may have them",
    "recovery": "sees to leases that ran out where nobody polls",
    "rules": "has automation rules looked at that become due without telemetry",
    "signing": "signs events, and rotates the keys for it",
    "push": "pushes events to clients that want it",
    "retention": "removes what has served its time",
}

# Service → role; "" for what every process needs.
SERVICES = {
    "dispatcher": "dispatcher",
    "wrap worker": "wrapping",
    "presence": "api",
    "retention": "retention",
    "catching up": "",
    "deadlines": "",
    "clock": "",
    "notices": "",
    "redis": "",
    "buckets": "api",
    "lease recovery": "recovery",
    "rule timer": "rules",
    "collectors' presence": "api",
    "clients' presence": "api",
    "event signer": "signing",
    "event key rotation": "signing",
    "event push": "push",
}

# Each outbox in another database has a dispatcher of its own, and on PostgreSQL a listener, named after it.
OUTSIDE_DISPATCHER = "dispatcher of "
OUTSIDE_LISTENER = "listener of "


class RoleNames(tuple[str, ...]):
    """Roles, written with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)

    def run(self, service: str) -> bool:
        """Whether a process with these roles runs the service. One that is not named in `SERVICES` runs everywhere."""
        role = role_of(service) or ""
        return not role or role in self


def role_of(service: str) -> str | None:
    """The role that a service belongs to; "" for every process's, None for one that nobody has named."""
    return "dispatcher" if service.startswith((OUTSIDE_DISPATCHER, OUTSIDE_LISTENER)) else SERVICES.get(service)


EVERY_ROLE = RoleNames(ROLES)


@dataclass(frozen=True, slots=True)
class Roles:
    @property
    def expected(self) -> str:
        return f"one or more of {', '.join(ROLES)}, with commas between them"

    def read(self, raw: object, /) -> RoleNames:
        """From TOML a list, from anywhere else the names with commas between them."""
        given: Iterable[object] = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        names = [str(name).strip() for name in given if str(name).strip()]
        if not names or not set(names) <= set(ROLES):
            raise ValueError
        return RoleNames(name for name in ROLES if name in names)
