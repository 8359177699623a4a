"""Invitations: a person sets their own password, once, with a code for this person only."""

import pytest

from restante.core.errors import Conflict, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity import access_audit, administration
from restante.identity.administration import Administrator
from restante.identity.grants import Grants, Role, checked_grants, parse_grant
from restante.identity.people import invitations, sessions, users
from restante.identity.people.invitations import LIFETIME_SECONDS
from tests.conftest import ManualClock
from tests.identity.people_and_devices import SESSION_SECONDS

ADMIN = Administrator.of_everything("root@example.com")
VIEWER = Grants.everywhere(Role.viewer)


def add_invited(database: Database) -> int:
    return database.write_now(administration.add_person, ADMIN, "ada@example.com", users.NO_PASSWORD, VIEWER).id


def test_invited_person_sets_a_password_once(database: Database) -> None:
    person_id = add_invited(database)
    assert not database.read_now(users.get, person_id).has_password
    code = database.write_now(administration.invite_person, ADMIN, person_id).code
    database.read_now(invitations.check, code)
    assert database.write_now(invitations.accept, code, "hash").email == "ada@example.com"
    assert database.read_now(users.get, person_id).password_hash == "hash"
    assert database.read_now(invitations.expires_at, person_id) is None
    with pytest.raises(NotAuthenticated):
        database.write_now(invitations.accept, code, "other")
    changes = database.read_now(access_audit.list_page, person_id, None, PageRequest(10, 0)).items
    assert [(each.actor, each.event) for each in changes] == [
        ("ada@example.com", "person.password_changed"),
        ("root@example.com", "person.invited"),
        ("root@example.com", "person.added"),
    ]


def test_invitation_ends_former_sessions_only_when_it_is_accepted(database: Database) -> None:
    person_id = database.write_now(users.add, "bob@example.com", "old", VIEWER)
    token = database.write_now(sessions.start, person_id, SESSION_SECONDS)
    code = database.write_now(administration.invite_person, ADMIN, person_id).code
    assert database.read_now(sessions.find, token) is not None
    assert database.read_now(users.get, person_id).password_hash == "old"
    database.write_now(invitations.accept, code, "new")
    assert database.read_now(sessions.find, token) is None


def test_new_invitation_replaces_the_one_before(database: Database) -> None:
    person_id = add_invited(database)
    first = database.write_now(administration.invite_person, ADMIN, person_id).code
    second = database.write_now(administration.invite_person, ADMIN, person_id).code
    with pytest.raises(NotAuthenticated):
        database.read_now(invitations.check, first)
    database.read_now(invitations.check, second)


def test_invitation_expires_and_is_deleted(database: Database, clock: ManualClock) -> None:
    person_id = add_invited(database)
    code = database.write_now(administration.invite_person, ADMIN, person_id).code
    clock.advance(LIFETIME_SECONDS)
    with pytest.raises(NotAuthenticated):
        database.read_now(invitations.check, code)
    with pytest.raises(NotAuthenticated):
        database.write_now(invitations.accept, code, "hash")
    assert database.write_now(invitations.delete_expired) == 1


@pytest.mark.parametrize("end", [users.suspend, users.remove])
def test_invitation_of_a_person_without_access_is_useless(database: Database, end: object) -> None:
    person_id = add_invited(database)
    code = database.write_now(administration.invite_person, ADMIN, person_id).code
    database.write_now(end, person_id, "root@example.com")  # type: ignore[arg-type]
    with pytest.raises(NotAuthenticated):
        database.write_now(invitations.accept, code, "hash")
    with pytest.raises((Conflict, NotFound)):
        database.write_now(administration.invite_person, ADMIN, person_id)


def test_administrator_invites_only_people_within_their_grants(database: Database) -> None:
    person_id = add_invited(database)
    helper = Administrator("helper@example.com", checked_grants([parse_grant("admin@updates")]))
    with pytest.raises(NotFound):
        database.write_now(administration.invite_person, helper, person_id)
    assert database.read_now(administration.find_person, helper, "ada@example.com") is None
    found = database.read_now(administration.find_person, ADMIN, "Ada@example.com")
    assert found is not None


def test_invited_administrator_does_not_count_as_the_last_one(database: Database) -> None:
    only = database.write_now(users.add, "root@example.com", "hash", Role.admin)
    grants = Grants.everywhere(Role.admin)
    database.write_now(administration.add_person, ADMIN, "new@example.com", users.NO_PASSWORD, grants)
    with pytest.raises(Conflict):
        database.write_now(users.suspend, only, "root@example.com")
