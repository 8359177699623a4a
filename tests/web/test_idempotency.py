import pytest

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.hot import Failed
from restante.web import idempotency
from restante.web.idempotency import KEEP_SECONDS, Answered, Asked, KeyReused
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


def test_work_is_done_once(database: Database) -> None:
    done: list[bytes] = []

    def ask(body: bytes, key: str | None = "k") -> tuple[bytes, bool]:
        def work() -> bytes:
            done.append(body)
            return b"%d" % len(done)

        return database.write_now(idempotency.once, Asked("ada", key, body), work)

    assert [ask(b"a"), ask(b"a"), ask(b"a", "other"), ask(b"a", None)] == [
        (b"1", False),
        (b"1", True),
        (b"2", False),
        (b"3", False),
    ]
    with pytest.raises(KeyReused):
        ask(b"b")


def test_work_that_fails_leaves_no_key(database: Database) -> None:
    def fail() -> bytes:
        raise BadInput("x", "y")

    with pytest.raises(BadInput):
        database.write_now(idempotency.once, Asked("ada", "k", b""), fail)
    assert database.write_now(idempotency.once, Asked("ada", "k", b""), lambda: b"{}") == (b"{}", False)


def test_an_answer_given_before_says_so() -> None:
    fresh, replayed = (idempotency.Answered(b"{}", is_replayed).as_answer() for is_replayed in (False, True))
    assert (fresh.status, replayed.status) == (201, 201)
    assert (b"idempotency-replayed", b"true") in replayed.headers
    assert b"idempotency-replayed" not in dict(fresh.headers)


def test_of_many_each_is_done_once_as_if_they_came_one_after_another(database: Database) -> None:
    calls: list[list[bytes]] = []

    def ask(*asked: Asked) -> list[Answered | Failed]:
        def work(places: list[int]) -> list[bytes | Failed]:
            calls.append([asked[place].body for place in places])
            return [Failed(bad) if asked[place].body == b"bad" else b"did " + asked[place].body for place in places]

        return database.write_now(idempotency.once_each, list(asked), work)

    bad = BadInput("x", "y")
    first = ask(Asked("ada", "k", b"bad"), Asked("ada", "k", b"a"), Asked("bob", "k", b"b"), Asked("ada", None, b"c"))
    assert first == [Failed(bad), Answered(b"did a", False), Answered(b"did b", False), Answered(b"did c", False)]
    # What failed leaves no key, so that the next under it is done; in their order, as many together as can be.
    assert calls == [[b"bad"], [b"a", b"b", b"c"]]
    again, other, another = ask(Asked("ada", "k", b"a"), Asked("ada", "k", b"other"), Asked("eve", "k", b"a"))
    assert (again, another) == (Answered(b"did a", True), Answered(b"did a", False))
    assert isinstance(other, Failed)
    assert isinstance(other.error, KeyReused)
