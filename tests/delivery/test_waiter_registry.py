"""The registry without a protocol: notification numbers, parking, timers, bounds."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.delivery.waiter_registry import NEVER, WaiterRegistry

PATIENCE_SECONDS = 10.0


class Waiter:
    def __init__(self, key: int) -> None:
        self.key = key


class Registry(WaiterRegistry[str, Waiter]):
    """Records which waiters it wakes, and has a clock that tests set."""

    def __init__(self, keys_max: int = 100) -> None:
        self.now = 100.0
        self.woken: list[Waiter] = []
        super().__init__(self.woken.append, keys_max, lambda: self.now)

    def parked(self, key: int = 1, until: float = NEVER) -> Waiter:
        waiter = Waiter(key)
        self.park(waiter, until)
        return waiter


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_notification_changes_number_and_drops_knowledge_of_its_key_only(registry: Registry) -> None:
    before = registry.last_notified(1), registry.last_notified(2)
    registry.remember(1, "one")
    registry.remember(2, "two")
    assert not registry.notify(1)
    assert registry.known == {2: "two"}
    assert registry.last_notified(1) != before[0]
    assert registry.last_notified(2) == before[1]


def test_forget_all_changes_every_number_and_drops_all_knowledge(registry: Registry) -> None:
    registry.notify(1)
    before = registry.last_notified(1), registry.last_notified(2)
    registry.remember(1, "one")
    registry.forget_all()
    assert registry.known == {}
    assert registry.last_notified(1) != before[0]
    assert registry.last_notified(2) != before[1]


def test_forget_all_leaves_waiters_parked(registry: Registry) -> None:
    waiter = registry.parked()
    registry.forget_all()
    assert registry.waiters_of(1) == [waiter]
    assert registry.woken == []


def test_full_registry_drops_what_was_learnt_first_and_invalidates_reads() -> None:
    registry = Registry(keys_max=8)
    before = registry.last_notified(0)
    for key in range(8):
        registry.remember(key, "known")
    assert registry.last_notified(0) == before
    registry.remember(8, "known")
    assert 0 not in registry.known
    assert registry.known[8] == "known"
    assert registry.last_notified(0) != before


def test_known_key_is_replaced_without_dropping_others() -> None:
    registry = Registry(keys_max=2)
    registry.remember(1, "a")
    registry.remember(2, "a")
    registry.remember(2, "b")
    assert registry.known == {1: "a", 2: "b"}


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=200), st.integers(0, 10))
def test_memory_is_bounded_and_each_notification_changes_its_number(
    steps: list[tuple[int, bool]], keys_max: int
) -> None:
    registry = Registry(keys_max)
    for key, is_notified in steps:
        before = registry.last_notified(key)
        if is_notified:
            registry.notify(key)
            assert registry.last_notified(key) > before
            assert key not in registry.known
        else:
            registry.remember(key, "known")
            assert registry.known[key] == "known"
        assert len(registry.known) <= max(1, keys_max)
        assert len(registry._notified) <= max(1, keys_max)


def test_notification_beyond_the_bound_invalidates_reads_of_other_keys(registry: Registry) -> None:
    before = registry.last_notified(0)
    for key in range(1, 200):
        registry.notify(key)
    assert registry.last_notified(0) != before


def test_waiters_are_found_by_key_in_order_of_arrival_and_leave(registry: Registry) -> None:
    first, second, third, other = registry.parked(1), registry.parked(1), registry.parked(1), registry.parked(2)
    assert registry.parked_count == 4
    assert registry.waiters_of(1) == [first, second, third]
    assert registry.first_waiter(1) is first
    assert registry.all_waiters() == [first, second, third, other]
    registry.leave(first)
    registry.leave(first)
    registry.leave(Waiter(1))
    registry.leave(Waiter(2))
    registry.leave(Waiter(3))
    assert (registry.waiters_of(1), registry.parked_count) == ([second, third], 3)
    assert registry.first_waiter(1) is second
    registry.leave(second)
    registry.leave(third)
    assert registry.waiters_of(1) == []
    assert registry.first_waiter(1) is None
    assert not registry.is_waiting(1)
    assert registry.is_waiting(2)
    assert registry.all_waiters() == [other]


def test_waiters_may_leave_while_all_are_visited(registry: Registry) -> None:
    for key in (1, 0, 1, 0):
        registry.parked(key)
    for waiter in registry.all_waiters():
        registry.leave(waiter)
    assert registry.parked_count == 0


def test_notification_wakes_all_waiters_of_its_key(registry: Registry) -> None:
    first, second, other = registry.parked(1), registry.parked(1), registry.parked(2)
    assert registry.notify(1)
    assert registry.woken == [first, second]
    assert registry.all_waiters() == [other]
    assert registry.parked_count == 1
    registry.notify_all()
    assert registry.woken == [first, second, other]
    assert registry.parked_count == 0


def test_waiter_that_has_left_is_not_woken(registry: Registry) -> None:
    waiter = registry.parked()
    registry.leave(waiter)
    assert not registry.notify(1)
    assert (registry.woken, registry.parked_count) == ([], 0)


async def test_earliest_due_time_of_a_key_wakes_its_waiters(registry: Registry) -> None:
    late, soon = registry.parked(until=registry.now + 3600), registry.parked(until=registry.now)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(registry.woken) < 2:
            await asyncio.sleep(0.001)
    assert registry.woken == [late, soon]


async def test_later_due_time_does_not_delay_an_earlier_one(registry: Registry) -> None:
    soon, late = registry.parked(until=registry.now + 0.01), registry.parked(until=registry.now + 3600)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(registry.woken) < 2:
            await asyncio.sleep(0.001)
    assert registry.woken == [soon, late]


async def test_last_waiter_that_leaves_cancels_the_timer(registry: Registry) -> None:
    waiters = [registry.parked(until=registry.now + 3600) for _ in range(2)]
    registry.leave(waiters[0])
    assert registry._timers
    registry.leave(waiters[1])
    assert not registry._timers
