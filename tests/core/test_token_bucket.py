from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.token_bucket import TokenBuckets


def test_burst_is_allowed_and_no_more() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=20)
    assert [buckets.acquire(7, 100.0) for _ in range(20)] == [0.0] * 20
    assert buckets.acquire(7, 100.0) == pytest.approx(1.0)


def test_refused_call_acquires_nothing() -> None:
    buckets = TokenBuckets(rate_per_second=2, burst=1)
    assert buckets.acquire(7, 0.0) == 0.0
    for _ in range(5):
        assert buckets.acquire(7, 0.1) == pytest.approx(0.4)
    assert buckets.acquire(7, 0.5) == 0.0


def test_each_recipient_has_its_own_bucket() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=1)
    assert buckets.acquire(1, 0.0) == 0.0
    assert buckets.acquire(2, 0.0) == 0.0
    assert buckets.acquire(1, 0.0) > 0.0


def test_bucket_holds_at_most_its_burst() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=2)
    buckets.acquire(7, 0.0)
    assert [buckets.acquire(7, 1e6) for _ in range(3)] == [0.0, 0.0, pytest.approx(1.0)]


@pytest.mark.parametrize("now", [0.1, 1e5 + 0.1, 1e7 + 0.1, 3e8 + 0.1])
@pytest.mark.parametrize("rate", [0.3, 1.0, 3.0, 7.0])
def test_burst_is_complete_at_any_uptime(rate: float, now: float) -> None:
    buckets = TokenBuckets(rate, burst=100)
    assert [buckets.acquire(7, now) for _ in range(100)] == [0.0] * 100
    assert buckets.acquire(7, now) > 0.0


def test_full_buckets_are_dropped_to_make_room() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=5, recipients_max=3)
    for recipient in range(3):
        buckets.acquire(recipient, 0.0)
    buckets.acquire(9, 10.0)
    assert len(buckets) == 1


def test_many_recipients_do_not_make_each_call_scan_all_buckets() -> None:
    scans = []

    class Counting(TokenBuckets):
        def forget_full(self, now: float) -> None:
            scans.append(len(self))
            super().forget_full(now)

    buckets = Counting(rate_per_second=0.001, burst=5, recipients_max=100)
    for recipient in range(10_000):
        buckets.acquire(recipient, 0.0)
    assert sum(scans) < 3 * 10_000


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5))
def test_no_interval_allows_more_than_burst_and_rate(gaps: list[float], burst: int) -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=burst)
    now, acquired = 0.0, []
    for gap in gaps:
        now += gap
        if buckets.acquire(7, now) == 0.0:
            acquired.append(now)
    for start, first in enumerate(acquired):
        for count, at in enumerate(acquired[start:], 1):
            assert count <= burst + (at - first) + 0.01


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0, 3)), max_size=40))
def test_dropping_full_buckets_changes_no_result(calls: list[tuple[int, float]]) -> None:
    keeping, dropping = TokenBuckets(1, 2), TokenBuckets(1, 2)
    now = 0.0
    for recipient, gap in calls:
        now += gap
        dropping.forget_full(now)
        assert dropping.acquire(recipient, now) == keeping.acquire(recipient, now)


def test_returned_wait_is_long_enough() -> None:
    buckets = TokenBuckets(rate_per_second=4, burst=3)
    times, now = [], 0.0
    for _ in range(20):
        wait = buckets.acquire(7, now)
        while wait:
            now += wait
            wait = buckets.acquire(7, now)
        times.append(now)
    assert all(later - earlier == pytest.approx(0.25) for earlier, later in pairwise(times[3:]))


@given(st.lists(st.floats(0, 3), max_size=40))
def test_wait_predicts_acquire_and_acquires_nothing(gaps: list[float]) -> None:
    buckets, now = TokenBuckets(1, 3), 0.0
    for gap in gaps:
        now += gap
        waits = [buckets.wait(7, now) for _ in range(3)]
        assert waits == [buckets.acquire(7, now)] * 3
