import time

from restante.database.clocks.clock import DatabaseClock


def test_clock_is_that_of_the_process_until_it_is_set() -> None:
    clock = DatabaseClock()
    before = time.time()
    assert before <= clock() <= time.time()


def test_clock_continues_from_the_time_of_the_database() -> None:
    clock = DatabaseClock()
    before = time.monotonic()
    clock.set(1_000_000_000_000)
    first, second = clock(), clock()
    assert 1_000_000_000 <= first <= second <= 1_000_000_000 + time.monotonic() - before
