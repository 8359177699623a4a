import time

from restante.database.clock import DatabaseClock


def test_is_the_process_clock_until_it_is_told_otherwise() -> None:
    clock = DatabaseClock()
    before = time.time()
    assert before <= clock() <= time.time()


def test_counts_on_from_the_database_time() -> None:
    clock = DatabaseClock()
    before = time.monotonic()
    clock.set(1_000_000_000_000)
    first, second = clock(), clock()
    assert 1_000_000_000 <= first <= second <= 1_000_000_000 + time.monotonic() - before
