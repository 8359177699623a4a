import pytest

from restante.commands.collector_budgets import BudgetOptions, CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.core.errors import TooManyRequests


class Clock:
    now = 1000.0


def make(**options: int) -> tuple[CollectorBudgets, Clock, CommandCounters]:
    clock, counters = Clock(), CommandCounters()
    return CollectorBudgets(BudgetOptions(**options), counters, monotonic=lambda: clock.now), clock, counters


def test_budget_is_used_up_and_refills() -> None:
    budgets, clock, counters = make(bytes_per_hour=3600)
    budgets.admit_safety_events(1, 3600)
    with pytest.raises(TooManyRequests) as refused:
        budgets.admit_ack(1, 10)
    assert refused.value.retry_after_seconds == 1
    assert refused.value.message == "this collector has used its budget of 3600 bytes an hour"
    assert counters.over_budget.counts == {("bytes",): 1}
    clock.now += 1
    budgets.admit_ack(1, 10)


def test_report_larger_than_the_budget_is_accepted_once_and_paid_back() -> None:
    budgets, clock, _ = make(telemetry_bytes_per_minute=60)
    budgets.admit_telemetry(1, 600)
    with pytest.raises(TooManyRequests) as refused:
        budgets.admit_telemetry(1, 1)
    assert refused.value.retry_after_seconds == 541
    clock.now += 541
    budgets.admit_telemetry(1, 1)


def test_budgets_of_collectors_are_their_own() -> None:
    budgets, _, _ = make(repeats_per_minute=1)
    budgets.count_repeat(1)
    with pytest.raises(TooManyRequests):
        budgets.admit_ack(1, 0)
    budgets.admit_ack(2, 0)


def test_zero_means_no_limit() -> None:
    budgets, _, _ = make()
    for _ in range(100):
        budgets.count_repeat(1)
        budgets.admit_ack(1, 2**30)
        budgets.admit_safety_events(1, 2**30)
        budgets.admit_telemetry(1, 2**30)
