"""Every status and what it means for the event; the circuit, waits and when an event is given up."""

import pytest

from restante.core.backoff import Backoff
from restante.core.push_outcome import PushRules, meaning_of

RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=100, circuit_failures=3, circuit_seconds=10, jitter=0.5)


@pytest.mark.parametrize("status", [None, *range(100, 600)])
def test_every_answer_means_something(status: int | None) -> None:
    refusing = {400, 413, 415, 422}
    expected = "delivered" if status == 202 else "refused" if status in refusing else "failed"
    assert meaning_of(status) == expected


def test_the_circuit_opens_after_so_many_failures_in_a_row() -> None:
    assert [RULES.circuit(failures) for failures in range(5)] == ["closed"] * 3 + ["open"] * 2


def test_waits_double_are_at_least_the_circuits_once_it_is_open_and_never_more_than_the_most() -> None:
    waits = [RULES.wait_seconds(failures, 0.0) for failures in (1, 2, 3, 4, 5, 6, 7, 5000)]
    assert waits == [1, 2, 10, 10, 16, 32, 60, 60]


def test_chance_makes_waits_longer_by_the_jitter_at_most() -> None:
    assert RULES.wait_seconds(2, 1.0) == 3.0
    assert RULES.wait_seconds(2, 0.5) == 2.5


def test_an_event_is_given_up_after_its_tries() -> None:
    assert [RULES.is_over(attempts) for attempts in (0, 3, 4, 5)] == [False, False, True, True]
