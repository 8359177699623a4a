from pathlib import Path

import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity import api_keys
from restante.identity.callers import ApiKeyCaller, Role
from restante.identity.grants import Grants
from restante.identity.people import users
from tests.conftest import ManualClock


def test_key_is_found_until_it_is_revoked(database: Database) -> None:
    key_id, key = database.write_now(api_keys.create, "deploy", Role.approver)
    assert key.startswith("rk_")
    assert database.read_now(api_keys.find, key) == ApiKeyCaller(key_id, "deploy", Grants.everywhere(Role.approver))
    database.write_now(api_keys.revoke, key_id)
    assert database.read_now(api_keys.find, key) is None


def test_key_of_a_user_has_at_most_the_role_of_the_user(database: Database) -> None:
    viewer = database.write_now(users.add, "viewer@example.com", "x", Role.viewer)
    admin = database.write_now(users.add, "admin@example.com", "x", Role.admin)
    for user_id, role, effective in (
        (viewer, Role.admin, Role.viewer),
        (admin, Role.operator, Role.operator),
        (admin, Role.admin, Role.admin),
    ):
        key_id, key = database.write_now(api_keys.create, "own", role, user_id)
        assert database.read_now(api_keys.find, key) == ApiKeyCaller(
            key_id, "own", Grants.everywhere(effective), user_id
        )


def test_key_is_refused_after_its_lifetime(database: Database, clock: ManualClock) -> None:
    _, key = database.write_now(api_keys.create, "short", Role.viewer, None, 60)
    clock.advance(59.999)
    assert database.read_now(api_keys.find, key) is not None
    clock.advance(0.001)
    assert database.read_now(api_keys.find, key) is None


def test_keys_of_a_user_are_listed_in_pages(database: Database) -> None:
    user_id = database.write_now(users.add, "ada@example.com", "x", Role.operator)
    database.write_now(api_keys.create, "of nobody", Role.viewer)
    ids = [database.write_now(api_keys.create, "own", Role.viewer, user_id)[0] for _ in range(3)]
    page = database.read_now(api_keys.list_of_user, user_id, PageRequest(2, 0))
    assert ([key.id for key in page.items], page.next) == (ids[:2], ids[1])
    assert database.read_now(api_keys.get, ids[0], user_id) == page.items[0]
    for key_id, owner in ((ids[0], user_id + 1), (ids[0] - 1, user_id), (999, user_id)):
        with pytest.raises(NotFound):
            database.read_now(api_keys.get, key_id, owner)


def test_second_revocation_changes_nothing_and_unknown_key_is_refused(database: Database) -> None:
    key_id, _ = database.write_now(api_keys.create, "deploy", Role.viewer)
    database.write_now(api_keys.revoke, key_id)
    before = database.read_now(api_keys.list_all)
    database.write_now(api_keys.revoke, key_id)
    assert database.read_now(api_keys.list_all) == before
    with pytest.raises(NotFound):
        database.write_now(api_keys.revoke, 99)


def test_revocation_leaves_other_keys(database: Database) -> None:
    first, _ = database.write_now(api_keys.create, "one", Role.viewer)
    _, other = database.write_now(api_keys.create, "two", Role.admin)
    database.write_now(api_keys.revoke, first)
    assert database.read_now(api_keys.find, other) is not None
    assert [(key.name, key.role, key.revoked_at is None) for key in database.read_now(api_keys.list_all)] == [
        ("one", Role.viewer, False),
        ("two", Role.admin, True),
    ]


def test_other_text_finds_no_key(database: Database) -> None:
    _, key = database.write_now(api_keys.create, "deploy", Role.viewer)
    for other in ("", "rk_", key[3:], key + "x", "\ud800"):
        assert database.read_now(api_keys.find, other) is None


@pytest.mark.embedded
def test_key_is_not_stored(database: Database, tmp_path: Path) -> None:
    _, key = database.write_now(api_keys.create, "deploy", Role.viewer)
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"deploy" in kept
    assert key.removeprefix("rk_").encode() not in kept


@pytest.mark.parametrize("name", ["", "x" * 101, "line\nbreak"])
def test_unprintable_or_too_long_name_is_refused(database: Database, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        database.write_now(api_keys.create, name, Role.viewer)
    assert refused.value.field == "name"
