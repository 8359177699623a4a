import pytest

from restante.database.database import Database
from restante.identity import idempotency, idempotency_limits
from restante.identity.idempotency_limits import IdempotencyKeeper, IdempotencyLimits, Usage, fair_shares, read_usages
from tests.conftest import ManualClock

WIDE = 1_000_000


def store(database: Database, clock: ManualClock, actor: str, count: int, size: int = 2) -> None:
    for _ in range(count):
        clock.advance(1)
        key = str(clock.now_ms)
        database.write_now(idempotency.store_response, actor, key, b"body", "x" * size)


def usage_of(database: Database) -> dict[str, Usage]:
    return database.read_now(read_usages)


async def test_oldest_keys_of_a_caller_over_its_bound_are_deleted(database: Database, clock: ManualClock) -> None:
    store(database, clock, "ada", 5)
    newest = str(clock.now_ms)
    store(database, clock, "key:shop", 2)
    keeper = IdempotencyKeeper(database, IdempotencyLimits(3, WIDE))
    assert await keeper.run_once() == 2
    assert usage_of(database) == {"ada": Usage(3, 6), "key:shop": Usage(2, 4)}
    assert database.read_now(idempotency.find_response, "ada", newest, b"body") == "xx"
    assert await keeper.run_once() == 0


async def test_bytes_are_bounded_too(database: Database, clock: ManualClock) -> None:
    store(database, clock, "ada", 3, size=100)
    store(database, clock, "ada", 2, size=10)
    assert await IdempotencyKeeper(database, IdempotencyLimits(WIDE, 130)).run_once() == 2
    assert usage_of(database) == {"ada": Usage(3, 120)}


async def test_many_keys_are_deleted_in_batches(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency_limits, "BATCH", 3)
    store(database, clock, "ada", 11)
    assert await IdempotencyKeeper(database, IdempotencyLimits(1, WIDE)).run_once() == 10
    assert usage_of(database) == {"ada": Usage(1, 2)}


async def test_size_is_that_of_the_stored_response(database: Database) -> None:
    request = idempotency.IdempotentRequest("ada", "k", b"{}")
    database.write_now(idempotency.run_once, request, "ü".encode)
    database.write_now(
        idempotency.run_each_once,
        [idempotency.IdempotentRequest("ada", "l", b"{}")],
        lambda indexes: ["üü".encode() for _ in indexes],
    )
    assert usage_of(database) == {"ada": Usage(2, 6)}


def test_callers_that_use_most_give_up_most() -> None:
    assert fair_shares({}, 10) == {}
    assert fair_shares({"a": 3, "b": 50}, 10) == {"a": 3, "b": 10}
    # Six callers share forty: the small ones keep all.
    used = {"a": 1, "b": 2, "c": 9, "d": 10, "e": 10, "f": 70}
    shares = fair_shares(used, 10)
    assert shares == {"a": 1, "b": 2, "c": 9, "d": 9, "e": 9, "f": 10}
    assert sum(shares.values()) == 40
