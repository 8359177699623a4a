import threading
from typing import Any

import msgspec
import pytest

from restante.core.errors import Conflict, NotAllowed, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.identity import access_audit, administration, api_keys
from restante.identity.administration import Administrator
from restante.identity.devices import device_codes, registration_codes
from restante.identity.grants import Grants, Role, checked_grants, parse_grant
from restante.identity.master_key import MasterKey
from restante.identity.people import sessions, users
from restante.identity.people.sign_in import SignIn
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, PASSWORD, SESSION_SECONDS, add_user

ROOT = Administrator.of_everything("root@example.com")
PAGE = PageRequest(100, 0)
_OLD_ROWS = Query("old_rows", "UPDATE users SET grants = NULL, suspended_at = NULL")

MASTER = MasterKey(bytes(32))


def grants(*texts: str) -> Grants:
    return checked_grants(parse_grant(text) for text in texts)


def admin(*texts: str) -> Administrator:
    return Administrator("part@example.com", grants(*texts))


def add_person(database: Database, email: str, *texts: str) -> int:
    return database.write_now(users.add, email, "x", grants(*texts))


def add_key(database: Database, *texts: str) -> tuple[int, str]:
    return database.write_now(api_keys.create, "key", grants(*texts))


def changes(database: Database) -> list[tuple[str, str, int | None, int | None, Any]]:
    """Every recorded change, oldest first."""
    page = database.read_now(access_audit.list_page, None, None, PAGE)
    return [
        (each.actor, each.event, each.person_id, each.key_id, msgspec.json.decode(each.detail))
        for each in reversed(page.items)
    ]


def test_person_without_stored_grants_has_the_role_everywhere(database: Database) -> None:
    """Rows of an older version."""
    user_id = add_user(database, role=Role.approver)
    database.write_now(lambda conn: conn.run(_OLD_ROWS))
    assert database.read_now(users.get, user_id).grants == Grants.everywhere(Role.approver)


def test_making_people_and_keys_is_recorded(database: Database) -> None:
    user_id = database.write_now(users.add, "ada@example.com", "x", grants("operator@commands:3"), "cli:ops")
    key_id, key = database.write_now(api_keys.create, "nightly", Role.viewer, user_id, None, "ada@example.com")
    assert changes(database) == [
        ("cli:ops", "person.added", user_id, None, {"email": "ada@example.com", "grants": ["operator@commands:3"]}),
        (
            "ada@example.com",
            "key.created",
            None,
            key_id,
            {"name": "nightly", "grants": ["viewer@all"], "user_id": user_id},
        ),
    ]
    assert key not in str(changes(database))


def test_every_change_is_recorded_once(database: Database) -> None:
    add_person(database, "root@example.com", "admin@all")
    user_id, (key_id, _) = add_person(database, "ada@example.com", "viewer@all"), add_key(database, "viewer@all")
    before = len(changes(database))
    new = grants("operator@commands:3")
    for _ in range(2):
        database.write_now(administration.set_person_grants, ROOT, user_id, new)
        database.write_now(administration.set_key_grants, ROOT, key_id, new)
        for suspend, resume, one in (
            (administration.suspend_person, administration.resume_person, user_id),
            (administration.suspend_key, administration.resume_key, key_id),
        ):
            database.write_now(suspend, ROOT, one)
            database.write_now(suspend, ROOT, one)
            database.write_now(resume, ROOT, one)
            database.write_now(resume, ROOT, one)
    database.write_now(users.set_password, user_id, "y", ROOT.actor)
    database.write_now(administration.remove_key, ROOT, key_id)
    database.write_now(administration.remove_key, ROOT, key_id)
    database.write_now(administration.remove_person, ROOT, user_id)
    recorded = changes(database)[before:]
    assert {actor for actor, *_ in recorded} == {ROOT.actor}
    assert [event for _, event, *_ in recorded] == [
        "person.grants_changed", "key.grants_changed",
        "person.suspended", "person.resumed", "key.suspended", "key.resumed",
        "person.suspended", "person.resumed", "key.suspended", "key.resumed",
        "person.password_changed", "key.revoked", "person.removed",
    ]  # fmt: skip
    assert recorded[0][-1] == {"before": ["viewer@all"], "after": ["operator@commands:3"]}
    assert recorded[-1][-1] == {"email": "ada@example.com"}


def test_changes_are_listed_by_person_and_by_key(database: Database) -> None:
    user_id, (key_id, _) = add_user(database), add_key(database, "viewer@all")
    of_person = database.read_now(access_audit.list_page, user_id, None, PAGE).items
    of_key = database.read_now(access_audit.list_page, None, key_id, PAGE).items
    assert [each.event for each in of_person] == ["person.added"]
    assert [each.event for each in of_key] == ["key.created"]


def test_new_grants_count_in_open_sessions_and_for_keys(database: Database) -> None:
    user_id, (key_id, key) = add_person(database, "ada@example.com", "operator@all"), add_key(database, "admin@all")
    session = database.write_now(sessions.start, user_id, SESSION_SECONDS)
    new = grants("viewer@commands:3")
    database.write_now(administration.set_person_grants, ROOT, user_id, new)
    database.write_now(administration.set_key_grants, ROOT, key_id, new)
    person, program = database.read_now(sessions.find, session), database.read_now(api_keys.find, key)
    assert person is not None
    assert program is not None
    assert (person.grants, person.role) == (program.grants, program.role) == (new, Role.viewer)


async def test_suspended_person_has_no_access_until_resumed(database: Database) -> None:
    user_id = add_user(database)
    session = database.write_now(sessions.start, user_id, SESSION_SECONDS)
    _, key = database.write_now(api_keys.create, "own", Role.operator, user_id)
    code = database.write_now(registration_codes.create, user_id)
    sign_in = SignIn(database, MASTER, session_seconds=SESSION_SECONDS)
    database.write_now(administration.suspend_person, ROOT, user_id)
    assert database.read_now(sessions.find, session) is None
    assert database.read_now(api_keys.find, key) is None
    with pytest.raises(NotAuthenticated):
        await sign_in.sign_in("ada@example.com", PASSWORD, "192.0.2.1")
    with pytest.raises(NotAuthenticated):
        database.write_now(registration_codes.redeem, code)
    database.write_now(administration.resume_person, ROOT, user_id)
    assert database.read_now(sessions.find, session) is None
    assert database.read_now(api_keys.find, key) is not None
    assert (await sign_in.sign_in("ada@example.com", PASSWORD, "192.0.2.1")).person.user_id == user_id


def test_device_that_a_suspended_person_approved_gets_no_tokens(database: Database) -> None:
    user_id = add_user(database)
    codes = database.write_now(
        lambda conn: device_codes.start(
            conn, CODE_KEY, CODE_LIMITS, scopes=[], interval_seconds=5, expires_in=900, address="", user_agent=""
        )
    )
    database.write_now(lambda conn: device_codes.decide(conn, codes.user_code, user_id, approve=True))
    database.write_now(administration.suspend_person, ROOT, user_id)
    polled = database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None)
    assert polled is device_codes.DeviceCodeStatus.access_denied


async def test_removed_person_is_gone_and_the_email_is_free(database: Database) -> None:
    user_id = add_user(database)
    session = database.write_now(sessions.start, user_id, SESSION_SECONDS)
    key_id, key = database.write_now(api_keys.create, "own", Role.operator, user_id)
    database.write_now(administration.remove_person, ROOT, user_id)
    assert database.read_now(sessions.find, session) is None
    assert database.read_now(api_keys.find, key) is None
    assert database.read_now(api_keys.get_any, key_id).revoked_at is not None
    with pytest.raises(NotAuthenticated):
        await SignIn(database, MASTER, session_seconds=60).sign_in("ada@example.com", PASSWORD, "192.0.2.1")
    with pytest.raises(NotAuthenticated):
        await SignIn(database, MASTER, session_seconds=60).sign_in(f"removed-{user_id}", PASSWORD, "192.0.2.1")
    for change in (administration.suspend_person, administration.resume_person, administration.remove_person):
        with pytest.raises(NotFound):
            database.write_now(change, ROOT, user_id)
    assert database.read_now(users.list_all) == []
    assert add_user(database) != user_id


def test_suspended_key_is_refused_until_resumed(database: Database) -> None:
    key_id, key = add_key(database, "viewer@all")
    database.write_now(administration.suspend_key, ROOT, key_id)
    assert database.read_now(api_keys.find, key) is None
    database.write_now(administration.resume_key, ROOT, key_id)
    assert database.read_now(api_keys.find, key) is not None


def test_last_administrator_of_everything_stays(database: Database) -> None:
    last = add_person(database, "last@example.com", "admin@all")
    add_person(database, "part@example.com", "admin@commands", "operator@all")
    suspended = add_person(database, "suspended@example.com", "admin@all")
    database.write_now(administration.suspend_person, ROOT, suspended)
    with pytest.raises(Conflict):
        database.write_now(administration.suspend_person, ROOT, last)
    with pytest.raises(Conflict):
        database.write_now(administration.remove_person, ROOT, last)
    with pytest.raises(Conflict):
        database.write_now(administration.set_person_grants, ROOT, last, grants("admin@commands"))
    assert database.read_now(users.get, last).suspended_at is None
    database.write_now(administration.set_person_grants, ROOT, last, grants("admin@all", "viewer@events"))
    database.write_now(administration.resume_person, ROOT, suspended)
    database.write_now(administration.remove_person, ROOT, last)


def test_two_administrators_cannot_suspend_each_other(database: Database) -> None:
    """At once: one of them is refused."""
    people = [add_person(database, f"{name}@example.com", "admin@all") for name in ("ada", "ben")]
    refused = []

    def suspend(person_id: int) -> None:
        try:
            database.write_now(administration.suspend_person, ROOT, person_id)
        except Conflict as error:
            refused.append(error)

    threads = [threading.Thread(target=suspend, args=(person_id,)) for person_id in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert [database.read_now(users.get, each).suspended_at is None for each in people].count(True) == 1


def test_administrator_of_a_part_sees_and_changes_that_part_only(database: Database) -> None:
    by = admin("admin@commands:3", "viewer@all")
    within = add_person(database, "within@example.com", "operator@commands:3")
    key_within, _ = add_key(database, "viewer@commands:3")
    outside = [
        add_person(database, f"{number}@example.com", *texts)
        for number, texts in enumerate((["viewer@commands:4"], ["viewer@commands"], ["viewer@all"]))
    ]
    outside.append(add_person(database, "both@example.com", "viewer@commands:3", "viewer@events:shop"))
    key_outside, _ = add_key(database, "viewer@commands:3", "viewer@updates:1")
    assert [each.id for each in database.read_now(administration.list_people, by, PAGE).items] == [within]
    assert [each.id for each in database.read_now(administration.list_keys, by, PAGE).items] == [key_within]
    for person_id in outside:
        with pytest.raises(NotFound):
            database.read_now(administration.person, by, person_id)
        with pytest.raises(NotFound):
            database.write_now(administration.set_person_grants, by, person_id, grants("viewer@commands:3"))
    with pytest.raises(NotFound):
        database.write_now(administration.suspend_key, by, key_outside)
    for given in ("viewer@commands:4", "viewer@commands", "viewer@events:shop", "viewer@all", "admin@all"):
        with pytest.raises(NotAllowed):
            database.write_now(administration.set_person_grants, by, within, grants(given))
        with pytest.raises(NotAllowed):
            database.write_now(administration.create_key, by, "new", grants(given), None)
    changed = database.write_now(administration.set_person_grants, by, within, grants("admin@commands:3"))
    assert changed.role is Role.admin


def test_list_of_people_has_pages(database: Database) -> None:
    by = admin("admin@commands:3")
    people = [
        add_person(database, f"{number}@example.com", "viewer@commands:3" if number % 2 else "viewer@all")
        for number in range(7)
    ]
    first = database.read_now(administration.list_people, by, PageRequest(2, 0))
    rest = database.read_now(administration.list_people, by, PageRequest(2, first.next or 0))
    assert [[each.id for each in page.items] for page in (first, rest)] == [people[1:4:2], people[5:6]]
    assert rest.next is None
