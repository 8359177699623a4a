"""Roles: which part of the work a process does. By default a process has all roles.

Every background service names its role, or runs in every process. Several processes on one database may have the same
role: they lease the work, or doing it twice changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

ROLES = {
    "api": "answers devices, collectors, clients and operators; a process without it answers health and metrics only",
    "dispatcher": "publishes signals from the outbox to the devices' logs",
    "wrapping": "encrypts data keys for the devices that may have them, and renews certificates",
    "recovery": "settles expired leases of sites that no collector polls, and records heads of the audit trail",
    "rules": "evaluates automation rules whose deadline passes without new telemetry",
    "signing": "signs events, and rotates the keys for it",
    "push": "pushes events to the receivers of clients",
    "jobs": "runs bulk jobs and staged rollouts",
    "retention": "removes rows whose retention time has passed",
}


class RoleNames(tuple[str, ...]):
    """Roles, written with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


EVERY_ROLE = RoleNames(ROLES)


@dataclass(frozen=True, slots=True)
class Roles:
    @property
    def expected(self) -> str:
        return f"one or more of {', '.join(ROLES)}, with commas between them"

    def parse(self, raw: object, /) -> RoleNames:
        """From TOML a list, from anywhere else the names with commas between them."""
        given: Iterable[object] = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        names = [str(name).strip() for name in given if str(name).strip()]
        if not names or not set(names) <= set(ROLES):
            raise ValueError
        return RoleNames(name for name in ROLES if name in names)
