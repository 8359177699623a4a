"""The outcome of every response status, the circuit breaker, retry waits, and when an event is given up."""

import pytest

from restante.core.backoff import Backoff
from restante.core.events.push_outcome import PushRules, push_outcome

RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=100, circuit_failures=3, circuit_seconds=10, jitter=0.5)


@pytest.mark.parametrize("status", [None, *range(100, 600)])
def test_every_status_has_an_outcome(status: int | None) -> None:
    refusing = {400, 413, 415, 422}
    expected = "delivered" if status == 202 else "refused" if status in refusing else "failed"
    assert push_outcome(status) == expected


def test_circuit_opens_after_enough_failures_in_a_row() -> None:
    assert [RULES.circuit_state(failures) for failures in range(5)] == ["closed"] * 3 + ["open"] * 2


def test_waits_double_between_circuit_minimum_and_maximum() -> None:
    waits = [RULES.wait_seconds(failures, 0.0) for failures in (1, 2, 3, 4, 5, 6, 7, 5000)]
    assert waits == [1, 2, 10, 10, 16, 32, 60, 60]


def test_jitter_lengthens_waits_by_its_fraction_at_most() -> None:
    assert RULES.wait_seconds(2, 1.0) == 3.0
    assert RULES.wait_seconds(2, 0.5) == 2.5


def test_event_is_exhausted_after_its_attempts() -> None:
    assert [RULES.is_exhausted(attempts) for attempts in (0, 3, 4, 5)] == [False, False, True, True]
