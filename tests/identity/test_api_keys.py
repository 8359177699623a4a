from pathlib import Path

import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.identity import api_keys
from restante.identity.callers import KeyHolder, Role


def test_a_key_is_found_until_it_is_revoked(database: Database) -> None:
    key_id, key = database.write_now(api_keys.create, "deploy", Role.approver)
    assert key.startswith("rk_")
    assert database.read_now(api_keys.find, key) == KeyHolder(key_id, "deploy", Role.approver)
    database.write_now(api_keys.revoke, key_id)
    assert database.read_now(api_keys.find, key) is None


def test_revoking_again_changes_nothing_and_revoking_nothing_is_an_error(database: Database) -> None:
    key_id, _ = database.write_now(api_keys.create, "deploy", Role.viewer)
    database.write_now(api_keys.revoke, key_id)
    before = database.read_now(api_keys.list_all)
    database.write_now(api_keys.revoke, key_id)
    assert database.read_now(api_keys.list_all) == before
    with pytest.raises(NotFound):
        database.write_now(api_keys.revoke, 99)


def test_one_revoked_key_leaves_the_others(database: Database) -> None:
    first, _ = database.write_now(api_keys.create, "one", Role.viewer)
    _, other = database.write_now(api_keys.create, "two", Role.admin)
    database.write_now(api_keys.revoke, first)
    assert database.read_now(api_keys.find, other) is not None
    assert [(key.name, key.role, key.revoked_at is None) for key in database.read_now(api_keys.list_all)] == [
        ("one", Role.viewer, False),
        ("two", Role.admin, True),
    ]


def test_what_is_no_key_finds_nobody(database: Database) -> None:
    _, key = database.write_now(api_keys.create, "deploy", Role.viewer)
    for other in ("", "rk_", key[3:], key + "x", "\ud800"):
        assert database.read_now(api_keys.find, other) is None


@pytest.mark.embedded
def test_the_key_is_not_in_the_database(database: Database, tmp_path: Path) -> None:
    _, key = database.write_now(api_keys.create, "deploy", Role.viewer)
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"deploy" in kept
    assert key.removeprefix("rk_").encode() not in kept


@pytest.mark.parametrize("name", ["", "x" * 101, "line\nbreak"])
def test_a_name_that_cannot_be_shown_is_refused(database: Database, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        database.write_now(api_keys.create, name, Role.viewer)
    assert refused.value.field == "name"
