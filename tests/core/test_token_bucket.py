from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.token_bucket import TokenBuckets


def test_a_burst_is_let_through_and_no_more() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=20)
    assert [buckets.take(7, 100.0) for _ in range(20)] == [0.0] * 20
    assert buckets.take(7, 100.0) == pytest.approx(1.0)


def test_what_was_refused_took_nothing() -> None:
    buckets = TokenBuckets(rate_per_second=2, burst=1)
    assert buckets.take(7, 0.0) == 0.0
    for _ in range(5):
        assert buckets.take(7, 0.1) == pytest.approx(0.4)
    assert buckets.take(7, 0.5) == 0.0


def test_each_recipient_has_a_bucket_of_its_own() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=1)
    assert buckets.take(1, 0.0) == 0.0
    assert buckets.take(2, 0.0) == 0.0
    assert buckets.take(1, 0.0) > 0.0


def test_a_bucket_fills_no_further_than_its_depth() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=2)
    buckets.take(7, 0.0)
    assert [buckets.take(7, 1e6) for _ in range(3)] == [0.0, 0.0, pytest.approx(1.0)]


@pytest.mark.parametrize("now", [0.1, 1e5 + 0.1, 1e7 + 0.1, 3e8 + 0.1])
@pytest.mark.parametrize("rate", [0.3, 1.0, 3.0, 7.0])
def test_the_whole_burst_is_there_however_long_the_machine_is_up(rate: float, now: float) -> None:
    buckets = TokenBuckets(rate, burst=100)
    assert [buckets.take(7, now) for _ in range(100)] == [0.0] * 100
    assert buckets.take(7, now) > 0.0


def test_full_buckets_are_forgotten_to_make_room() -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=5, recipients_max=3)
    for recipient in range(3):
        buckets.take(recipient, 0.0)
    buckets.take(9, 10.0)
    assert len(buckets) == 1


def test_a_flood_of_recipients_does_not_make_each_take_walk_over_all() -> None:
    walks = []

    class Watched(TokenBuckets):
        def forget_full(self, now: float) -> None:
            walks.append(len(self))
            super().forget_full(now)

    buckets = Watched(rate_per_second=0.001, burst=5, recipients_max=100)
    for recipient in range(10_000):
        buckets.take(recipient, 0.0)
    assert sum(walks) < 3 * 10_000


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5))
def test_over_any_time_no_more_than_burst_and_rate_allow(gaps: list[float], burst: int) -> None:
    buckets = TokenBuckets(rate_per_second=1, burst=burst)
    now, taken = 0.0, []
    for gap in gaps:
        now += gap
        if buckets.take(7, now) == 0.0:
            taken.append(now)
    for start, first in enumerate(taken):
        for count, at in enumerate(taken[start:], 1):
            assert count <= burst + (at - first) + 0.01


@given(st.lists(st.tuples(st.integers(1, 3), st.floats(0, 3)), max_size=40))
def test_forgetting_changes_no_answer(asks: list[tuple[int, float]]) -> None:
    remembering, forgetful = TokenBuckets(1, 2), TokenBuckets(1, 2)
    now = 0.0
    for recipient, gap in asks:
        now += gap
        forgetful.forget_full(now)
        assert forgetful.take(recipient, now) == remembering.take(recipient, now)


def test_waits_told_are_enough() -> None:
    buckets = TokenBuckets(rate_per_second=4, burst=3)
    moments, now = [], 0.0
    for _ in range(20):
        wait = buckets.take(7, now)
        while wait:
            now += wait
            wait = buckets.take(7, now)
        moments.append(now)
    assert all(later - earlier == pytest.approx(0.25) for earlier, later in pairwise(moments[3:]))


@given(st.lists(st.floats(0, 3), max_size=40))
def test_asking_tells_what_taking_would_and_takes_nothing(gaps: list[float]) -> None:
    buckets, now = TokenBuckets(1, 3), 0.0
    for gap in gaps:
        now += gap
        told = [buckets.wait(7, now) for _ in range(3)]
        assert told == [buckets.take(7, now)] * 3
