import pytest

from restante.commands import idempotency
from restante.commands.idempotency import KEEP_SECONDS, KeyReused
from restante.core.errors import BadInput
from restante.database.database import Database
from tests.conftest import ManualClock


def test_the_same_request_is_answered_the_same(database: Database) -> None:
    assert database.read_now(idempotency.answer_to, "ada", "k", b"body") is None
    database.write_now(idempotency.remember, "ada", "k", b"body", "answer")
    assert database.read_now(idempotency.answer_to, "ada", "k", b"body") == "answer"


def test_another_request_under_the_key_is_refused(database: Database) -> None:
    database.write_now(idempotency.remember, "ada", "k", b"body", "answer")
    with pytest.raises(KeyReused) as refused:
        database.read_now(idempotency.answer_to, "ada", "k", b"other")
    assert (refused.value.status, refused.value.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_key_is_its_callers_own(database: Database) -> None:
    database.write_now(idempotency.remember, "ada", "k", b"body", "answer")
    assert database.read_now(idempotency.answer_to, "bob", "k", b"other") is None


def test_keys_are_forgotten_after_a_while(database: Database, clock: ManualClock) -> None:
    database.write_now(idempotency.remember, "ada", "k", b"body", "answer")
    clock.advance(KEEP_SECONDS)
    assert database.write_now(idempotency.forget_old) == 0
    clock.advance(1)
    assert database.write_now(idempotency.forget_old) == 1
    assert database.read_now(idempotency.answer_to, "ada", "k", b"body") is None


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "ü"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(BadInput) as refused:
        idempotency.checked_key(key)
    assert refused.value.field == "Idempotency-Key"
    assert idempotency.checked_key("x" * 255) == "x" * 255
