"""Administration of people and API keys: list, change, suspend and remove them, within the administrator's own grants.

An administrator acts on a person or key only if they have the role admin wherever that person or key has a grant; for
others it does not exist. So an administrator cannot give or take away grants that they do not have. The command line is
an administrator of everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from restante.core.errors import Conflict, NotAllowed, NotFound
from restante.database.connection import Connection
from restante.database.paging import Page, PageRequest, page_of_items
from restante.identity import api_keys
from restante.identity.api_keys import ApiKey
from restante.identity.grants import Grants, Role
from restante.identity.people import invitations, users
from restante.identity.people.invitations import Invitation
from restante.identity.people.users import User

T = TypeVar("T", User, ApiKey)

BATCH_ROWS = 500


@dataclass(frozen=True, slots=True)
class Administrator:
    """Who makes a change. `user_id`: the signed-in person, or the person who made the API key."""

    actor: str
    grants: Grants
    user_id: int | None = None

    @classmethod
    def of_everything(cls, actor: str) -> "Administrator":
        return cls(actor, Grants.everywhere(Role.admin))

    def check_can_give(self, grants: Grants) -> None:
        if not self.grants.administer(grants):
            given, own = ", ".join(grants.as_texts()), ", ".join(self.grants.as_texts())
            raise NotAllowed(f"to give {given} you need the role admin in each of these scopes; you have {own}")


def list_people(conn: Connection, by: Administrator, page: PageRequest) -> Page[User]:
    return _page(by, page, lambda after: users.list_after(conn, after, BATCH_ROWS))


def list_keys(conn: Connection, by: Administrator, page: PageRequest) -> Page[ApiKey]:
    """Keys of all kinds, revoked ones too."""
    return _page(by, page, lambda after: api_keys.list_after(conn, after, BATCH_ROWS))


def person(conn: Connection, by: Administrator, person_id: int) -> User:
    found = users.find_by_id(conn, person_id)
    if found is None or found.is_removed or not by.grants.administer(found.grants):
        raise NotFound("there is no such person")
    return found


def find_person(conn: Connection, by: Administrator, email: str) -> User | None:
    """The person with this e-mail, if the administrator may act on them."""
    found = users.find_by_email(conn, email)
    return None if found is None or found.is_removed or not by.grants.administer(found.grants) else found


def key(conn: Connection, by: Administrator, key_id: int) -> ApiKey:
    found = api_keys.get_any(conn, key_id)
    if not by.grants.administer(found.grants):
        raise NotFound("there is no such API key")
    return found


def add_person(conn: Connection, by: Administrator, email: str, password_hash: str, grants: Grants) -> User:
    """Add a person. With `users.NO_PASSWORD` they can sign in after they have accepted an invitation."""
    by.check_can_give(grants)
    return users.get(conn, users.add(conn, email, password_hash, grants, by.actor))


def invite_person(conn: Connection, by: Administrator, person_id: int) -> Invitation:
    """Let the person set a new password by themselves; the code is shown this once."""
    if person(conn, by, person_id).suspended_at is not None:
        raise Conflict("the person is suspended: end the suspension first")
    return invitations.create(conn, person_id, by.actor)


def set_person_password(conn: Connection, by: Administrator, person_id: int, password_hash: str) -> User:
    person(conn, by, person_id)
    users.set_password(conn, person_id, password_hash, by.actor)
    return users.get(conn, person_id)


def set_person_grants(conn: Connection, by: Administrator, person_id: int, grants: Grants) -> User:
    person(conn, by, person_id)
    by.check_can_give(grants)
    users.set_grants(conn, person_id, grants, by.actor)
    return users.get(conn, person_id)


def suspend_person(conn: Connection, by: Administrator, person_id: int) -> User:
    person(conn, by, person_id)
    users.suspend(conn, person_id, by.actor)
    return users.get(conn, person_id)


def resume_person(conn: Connection, by: Administrator, person_id: int) -> User:
    person(conn, by, person_id)
    users.resume(conn, person_id, by.actor)
    return users.get(conn, person_id)


def remove_person(conn: Connection, by: Administrator, person_id: int) -> None:
    person(conn, by, person_id)
    users.remove(conn, person_id, by.actor)


def create_key(
    conn: Connection, by: Administrator, name: str, grants: Grants, lifetime_seconds: int | None
) -> tuple[ApiKey, str]:
    """Create a key without a user; returns it and the key itself, which is shown this once."""
    by.check_can_give(grants)
    key_id, token = api_keys.create(conn, name, grants, None, lifetime_seconds, by.actor, by.user_id)
    return api_keys.get_any(conn, key_id), token


def set_key_grants(conn: Connection, by: Administrator, key_id: int, grants: Grants) -> ApiKey:
    key(conn, by, key_id)
    by.check_can_give(grants)
    api_keys.set_grants(conn, key_id, grants, by.actor)
    return api_keys.get_any(conn, key_id)


def suspend_key(conn: Connection, by: Administrator, key_id: int) -> ApiKey:
    key(conn, by, key_id)
    api_keys.set_suspended(conn, key_id, by.actor, is_suspended=True)
    return api_keys.get_any(conn, key_id)


def resume_key(conn: Connection, by: Administrator, key_id: int) -> ApiKey:
    key(conn, by, key_id)
    api_keys.set_suspended(conn, key_id, by.actor, is_suspended=False)
    return api_keys.get_any(conn, key_id)


def remove_key(conn: Connection, by: Administrator, key_id: int) -> None:
    key(conn, by, key_id)
    api_keys.revoke(conn, key_id, by.actor)


def _page(by: Administrator, page: PageRequest, read: Callable[[int], list[T]]) -> Page[T]:
    """The rows that the administrator may act on, in order of their ids."""
    found: list[T] = []
    after = page.after
    while len(found) <= page.limit and (rows := read(after)):
        found += [row for row in rows if by.grants.administer(row.grants)]
        after = rows[-1].id
    return page_of_items(found[: page.limit + 1], page, lambda row: row.id)
