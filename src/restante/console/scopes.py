"""What a person may see and do in the console: the rules of the API routes, for pages about many tenants at once.

Sites and clients have no owner: the grants alone decide. Devices belong to users. As over the API, a person reaches
their own devices, those of users whom a grant names, and every user's with the role admin.
"""

from restante.identity.callers import Person
from restante.identity.grants import AllowedIds, Area, Role


def allowed_in(person: Person, area: Area, role: Role) -> AllowedIds | None:
    """The users, sites or clients of the area for which the person has the role; None if there are none."""
    return _allowed_users(person, role) if area is Area.updates else person.grants.allowed(area, role)


def _allowed_users(person: Person, role: Role) -> AllowedIds | None:
    grants = person.grants
    administered = grants.allowed(Area.updates, Role.admin)
    if administered is not None and administered.are_all:
        return administered
    ids: set[int | str] = set() if administered is None or administered.ids is None else set(administered.ids)
    ids |= {
        grant.scope.id
        for grant in grants.items
        if grant.scope.area is Area.updates and grant.scope.id is not None and grant.role >= role
    }
    granted = grants.allowed(Area.updates, role)
    if granted is not None and person.user_id in granted:
        ids.add(person.user_id)
    return AllowedIds(frozenset(ids)) if ids else None
