import pytest

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.writer.batching import Failed
from restante.identity import idempotency
from restante.identity.idempotency import KEEP_SECONDS, IdempotentRequest, IdempotentResult, KeyReused
from restante.web.idempotency import created_response
from tests.conftest import ManualClock


def test_same_request_gets_the_stored_response(database: Database) -> None:
    assert database.read_now(idempotency.find_response, "ada", "k", b"body") is None
    database.write_now(idempotency.store_response, "ada", "k", b"body", "response")
    assert database.read_now(idempotency.find_response, "ada", "k", b"body") == "response"


def test_other_request_under_the_key_is_refused(database: Database) -> None:
    database.write_now(idempotency.store_response, "ada", "k", b"body", "response")
    with pytest.raises(KeyReused) as refused:
        database.read_now(idempotency.find_response, "ada", "k", b"other")
    assert (refused.value.status, refused.value.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_key_belongs_to_its_caller(database: Database) -> None:
    database.write_now(idempotency.store_response, "ada", "k", b"body", "response")
    assert database.read_now(idempotency.find_response, "bob", "k", b"other") is None


def test_expired_keys_are_deleted(database: Database, clock: ManualClock) -> None:
    database.write_now(idempotency.store_response, "ada", "k", b"body", "response")
    clock.advance(KEEP_SECONDS)
    assert database.write_now(idempotency.delete_expired) == 0
    clock.advance(1)
    assert database.write_now(idempotency.delete_expired) == 1
    assert database.read_now(idempotency.find_response, "ada", "k", b"body") is None


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "ü"])
def test_invalid_key_is_refused(key: str) -> None:
    with pytest.raises(BadInput) as refused:
        idempotency.checked_key(key)
    assert refused.value.field == "Idempotency-Key"
    assert idempotency.checked_key("x" * 255) == "x" * 255


def test_work_runs_once_per_key(database: Database) -> None:
    done: list[bytes] = []

    def send(body: bytes, key: str | None = "k") -> IdempotentResult:
        def work() -> bytes:
            done.append(body)
            return b"%d" % len(done)

        return database.write_now(idempotency.run_once, IdempotentRequest("ada", key, body), work)

    assert [send(b"a"), send(b"a"), send(b"a", "other"), send(b"a", None)] == [
        IdempotentResult(b"1", False),
        IdempotentResult(b"1", True),
        IdempotentResult(b"2", False),
        IdempotentResult(b"3", False),
    ]
    with pytest.raises(KeyReused):
        send(b"b")


def test_failed_work_leaves_no_key(database: Database) -> None:
    def fail() -> bytes:
        raise BadInput("x", "y")

    with pytest.raises(BadInput):
        database.write_now(idempotency.run_once, IdempotentRequest("ada", "k", b""), fail)
    result = database.write_now(idempotency.run_once, IdempotentRequest("ada", "k", b""), lambda: b"{}")
    assert result == IdempotentResult(b"{}", False)


def test_replayed_response_has_the_replay_header() -> None:
    fresh, replayed = (created_response(IdempotentResult(b"{}", is_replayed)) for is_replayed in (False, True))
    assert (fresh.status, replayed.status) == (201, 201)
    assert (b"idempotency-replayed", b"true") in replayed.headers
    assert b"idempotency-replayed" not in dict(fresh.headers)


def test_batched_requests_run_once_each_as_if_in_sequence(database: Database) -> None:
    calls: list[list[bytes]] = []

    def send(*requests: IdempotentRequest) -> list[IdempotentResult | Failed]:
        def work(indexes: list[int]) -> list[bytes | Failed]:
            bodies = [requests[index].body for index in indexes]
            calls.append(bodies)
            return [Failed(bad) if body == b"bad" else b"did " + body for body in bodies]

        return database.write_now(idempotency.run_each_once, list(requests), work)

    bad = BadInput("x", "y")
    first = send(
        IdempotentRequest("ada", "k", b"bad"),
        IdempotentRequest("ada", "k", b"a"),
        IdempotentRequest("bob", "k", b"b"),
        IdempotentRequest("ada", None, b"c"),
    )
    assert first == [
        Failed(bad),
        IdempotentResult(b"did a", False),
        IdempotentResult(b"did b", False),
        IdempotentResult(b"did c", False),
    ]
    # A failed request leaves no key, so the next one under the key runs: in order, in batches as large as possible.
    assert calls == [[b"bad"], [b"a", b"b", b"c"]]
    again, other, another = send(
        IdempotentRequest("ada", "k", b"a"),
        IdempotentRequest("ada", "k", b"other"),
        IdempotentRequest("eve", "k", b"a"),
    )
    assert (again, another) == (IdempotentResult(b"did a", True), IdempotentResult(b"did a", False))
    assert isinstance(other, Failed)
    assert isinstance(other.error, KeyReused)
