from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.pacing import phase_of, poll_interval_seconds, retry_after_seconds

NOW = 1_800_000_000.0


@given(st.integers(0, 2**63 - 1))
def test_phase_is_in_the_unit_interval(recipient_id: int) -> None:
    assert 0.0 <= phase_of(recipient_id) < 1.0


@given(st.integers(0, 2**63 - 1), st.floats(0, 4e9), st.integers(2, 86_400))
def test_interval_is_between_half_and_one_and_a_half_of_the_base(recipient_id: int, now: float, base: int) -> None:
    assert max(1, base // 2) <= poll_interval_seconds(recipient_id, now, base) <= base * 3 / 2


@pytest.mark.parametrize("base", [0, 1])
def test_base_too_short_to_spread_is_returned_unchanged(base: int) -> None:
    assert poll_interval_seconds(7, NOW, base) == base


def test_fleet_that_polled_together_is_spread_evenly_after_one_round() -> None:
    base, fleet = 300, 30_000
    returns = Counter(poll_interval_seconds(device, NOW, base) % base for device in range(1, fleet + 1))
    assert len(returns) == base
    assert max(returns.values()) < 1.5 * fleet / base


def test_consecutive_ids_have_distant_phases() -> None:
    phases = sorted(phase_of(device) for device in range(1, 11))
    assert min(later - earlier for earlier, later in pairwise(phases)) > 0.03


def test_device_that_follows_the_advice_keeps_its_phase() -> None:
    now = NOW
    for _ in range(10):
        step = poll_interval_seconds(41, now, 300)
        now += step
    assert abs(step - 300) <= 1


def test_retry_after_is_at_least_the_minimum_and_spread() -> None:
    assert {retry_after_seconds(device, 0.2, 0) for device in range(100)} == {1}
    assert {retry_after_seconds(device, 2.0, 0) for device in range(100)} == {2}
    assert {retry_after_seconds(device, 2.1, 0) for device in range(100)} == {3}
    assert {retry_after_seconds(device, 1.0, 5) for device in range(1000)} == {1, 2, 3, 4, 5, 6}


def test_retry_after_is_never_zero() -> None:
    assert retry_after_seconds(0, 0.0, 0) == 1
