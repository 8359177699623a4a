from pathlib import Path

from restante.database.database import Database
from restante.identity.callers import Person, Role
from restante.identity.grants import Grants
from restante.identity.people import sessions
from tests.conftest import ManualClock
from tests.identity.people_and_devices import SESSION_SECONDS, add_user


def test_session_is_found_until_it_ends(database: Database) -> None:
    user_id = add_user(database)
    token = database.write_now(sessions.start, user_id, SESSION_SECONDS)
    assert database.read_now(sessions.find, token) == Person(
        user_id, "ada@example.com", Grants.everywhere(Role.operator)
    )
    database.write_now(sessions.end, token)
    assert database.read_now(sessions.find, token) is None


def test_session_expires_and_use_does_not_prolong_it(database: Database, clock: ManualClock) -> None:
    token = database.write_now(sessions.start, add_user(database), 100)
    clock.advance(99.999)
    assert database.read_now(sessions.find, token) is not None
    clock.advance(0.001)
    assert database.read_now(sessions.find, token) is None


def test_unknown_token_finds_no_person(database: Database) -> None:
    for token in ("", "x", "\ud800", "ÿ" * 5000):
        assert database.read_now(sessions.find, token) is None


def test_token_is_not_stored(database: Database, tmp_path: Path) -> None:
    token = database.write_now(sessions.start, add_user(database), SESSION_SECONDS)
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert token.encode() not in kept


def test_expired_sessions_are_deleted(database: Database, clock: ManualClock) -> None:
    user_id = add_user(database)
    database.write_now(sessions.start, user_id, 10)
    lasting = database.write_now(sessions.start, user_id, 20)
    clock.advance(10)
    assert database.write_now(sessions.delete_expired) == 1
    assert database.read_now(sessions.find, lasting) is not None


def test_form_token_belongs_to_one_session() -> None:
    assert sessions.is_form_token("a", sessions.form_token("a"))
    assert not sessions.is_form_token("b", sessions.form_token("a"))
    assert not sessions.is_form_token("a", "")
    assert not sessions.is_form_token("a", "ÿ\ud800")
