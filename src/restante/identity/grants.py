"""Grants: what a person or an API key may do, and where. The only place that decides it.

A grant is a role and a scope:

    all                 everything
    updates             device updates; `updates:7` the devices and certificates of user 7
    commands            edge commands; `commands:3` the site with the id 3
    events              events; `events:shop` the client with the client_id shop

A caller's grants are read together with its session or key. A route needs a role in an area; `Grants.allowed` answers
with the resources of that area for which the caller has the role. This module uses neither routes nor the database.

Invariant: a list of grants is never empty. Who has no grant has no access.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum

import msgspec

from restante.core.errors import BadInput

GRANTS_MAX = 50
EXPECTED_SCOPE = "all, updates, updates:<user id>, commands, commands:<site id>, events or events:<client_id>"

_ID = "[1-9][0-9]{0,17}"
_CLIENT_ID = "[A-Za-z0-9][A-Za-z0-9._~-]{0,127}"
SCOPE_PATTERN = f"^(all|updates(:{_ID})?|commands(:{_ID})?|events(:{_CLIENT_ID})?)$"
_SCOPE = re.compile(SCOPE_PATTERN.replace("$", r"\Z"), re.ASCII)


class Role(IntEnum):
    """Each role includes the rights of the roles before it."""

    viewer = 1
    operator = 2
    approver = 3
    admin = 4


class Area(Enum):
    """A part of the server that a grant can be limited to."""

    updates = "updates"
    commands = "commands"
    events = "events"


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything (no area), one area, or one resource of an area."""

    area: Area | None = None
    id: int | str | None = None

    def includes(self, other: "Scope") -> bool:
        return self.area is None or (self.area is other.area and self.id in (None, other.id))

    def __str__(self) -> str:
        if self.area is None:
            return "all"
        return self.area.value if self.id is None else f"{self.area.value}:{self.id}"


ALL = Scope()


@dataclass(frozen=True, slots=True)
class Grant:
    role: Role
    scope: Scope

    def includes(self, other: "Grant") -> bool:
        return self.role >= other.role and self.scope.includes(other.scope)

    def __str__(self) -> str:
        return f"{self.role.name}@{self.scope}"


@dataclass(frozen=True, slots=True)
class AllowedIds:
    """The resources of one area that a request may touch: users, sites or clients. `ids` None: all of them."""

    ids: frozenset[int | str] | None = None

    @property
    def are_all(self) -> bool:
        return self.ids is None

    @property
    def only(self) -> int | str | None:
        """The one allowed resource, if there is exactly one."""
        return next(iter(self.ids)) if self.ids is not None and len(self.ids) == 1 else None

    def __contains__(self, resource_id: object) -> bool:
        return self.ids is None or resource_id in self.ids

    def as_json(self) -> str | None:
        """The ids as a JSON list for a query; None if all are allowed."""
        return None if self.ids is None else msgspec.json.encode(sorted(self.ids, key=str)).decode()


ALL_IDS = AllowedIds()


@dataclass(frozen=True, slots=True)
class Grants:
    """The grants of one person or API key."""

    items: tuple[Grant, ...]

    @classmethod
    def everywhere(cls, role: Role) -> "Grants":
        return cls((Grant(role, ALL),))

    @property
    def role(self) -> Role:
        """The highest role of all grants."""
        return max(grant.role for grant in self.items)

    @property
    def has_all(self) -> bool:
        """Whether these are the grants of an administrator of everything."""
        return any(grant.role is Role.admin and grant.scope == ALL for grant in self.items)

    def role_in(self, area: Area | None) -> Role | None:
        """The highest role for anything in the area; without an area, for everything."""
        roles = [grant.role for grant in self.items if grant.scope.area is None or grant.scope.area is area]
        return max(roles, default=None)

    def allowed(self, area: Area | None, role: Role) -> AllowedIds | None:
        """The resources of the area for which the caller has at least this role; None if there are none."""
        scopes = [grant.scope for grant in self.items if grant.role >= role]
        if any(scope.area is None or (scope.area is area and scope.id is None) for scope in scopes):
            return ALL_IDS
        ids = frozenset(scope.id for scope in scopes if scope.area is area and scope.id is not None)
        return AllowedIds(ids) if ids else None

    def names(self, area: Area, role: Role, resource_id: int | str) -> bool:
        """Whether a grant gives this role for this one resource by name, not through a wider scope."""
        return any(grant.role >= role and grant.scope == Scope(area, resource_id) for grant in self.items)

    def cover(self, other: "Grants") -> bool:
        """Whether each of the other grants is included in one of these."""
        return all(any(own.includes(grant) for own in self.items) for grant in other.items)

    def administer(self, other: "Grants") -> bool:
        """Whether the caller is an administrator wherever the other has a grant."""
        return self.cover(Grants(tuple(Grant(Role.admin, grant.scope) for grant in other.items)))

    def within(self, other: "Grants") -> "Grants | None":
        """The grants that both have; None if there is none."""
        common = [
            Grant(min(own.role, their.role), own.scope if their.scope.includes(own.scope) else their.scope)
            for own in self.items
            for their in other.items
            if own.scope.includes(their.scope) or their.scope.includes(own.scope)
        ]
        return Grants(_without_included(common)) if common else None

    def as_texts(self) -> list[str]:
        return [str(grant) for grant in self.items]

    def stored(self) -> str | None:
        """The text to store beside the highest role; None if the role counts everywhere."""
        if self == Grants.everywhere(self.role):
            return None
        return msgspec.json.encode([[grant.role.name, str(grant.scope)] for grant in self.items]).decode()


def stored_grants(role: str, text: str | None) -> Grants:
    """The grants of a row of people or keys."""
    if text is None:
        return _EVERYWHERE[role]
    items = msgspec.json.decode(text, type=list[tuple[str, str]])
    return Grants(tuple(Grant(Role[name], parse_scope(scope)) for name, scope in items))


def checked_grants(items: Iterable[tuple[Role, str]], field: str = "grants") -> Grants:
    """The grants of a request, without those that others include; raises BadInput if there are none or too many."""
    grants = [Grant(role, parse_scope(scope, field)) for role, scope in items]
    if not 1 <= len(grants) <= GRANTS_MAX:
        raise BadInput(field, f"1 to {GRANTS_MAX} grants")
    return Grants(_without_included(grants))


def parse_grant(text: str, field: str = "grant") -> tuple[Role, str]:
    """Role and scope of a text such as `operator@commands:3`; a role alone counts everywhere."""
    name, _, scope = text.partition("@")
    if name not in Role.__members__:
        raise BadInput(field, f"<role>@<scope>, with a role of {', '.join(Role.__members__)}")
    return Role[name], scope or str(ALL)


def parse_scope(text: str, field: str = "scope") -> Scope:
    if not _SCOPE.match(text):
        raise BadInput(field, EXPECTED_SCOPE)
    name, colon, resource = text.partition(":")
    if name == str(ALL):
        return ALL
    area = Area[name]
    if not colon:
        return Scope(area)
    return Scope(area, resource if area is Area.events else int(resource))


def _without_included(grants: list[Grant]) -> tuple[Grant, ...]:
    """The grants, the widest first, without repetitions and without those that another one includes."""
    kept: list[Grant] = []
    for grant in sorted(grants, key=lambda each: (each.scope.area is not None, each.scope.id is not None, -each.role)):
        if not any(other.includes(grant) for other in kept):
            kept.append(grant)
    return tuple(kept)


_EVERYWHERE = {role.name: Grants.everywhere(role) for role in Role}
