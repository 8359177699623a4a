import asyncio
from typing import Any

import pytest

from restante.events import inbox_bell
from restante.events.inbox_bell import InboxBell


class Waiter:
    def __init__(self, client: int) -> None:
        self.client = client


class Rung:
    """A bell with its own time, and who was woken."""

    def __init__(self) -> None:
        self.now = 100.0
        self.woken: list[Waiter] = []
        self.bell: InboxBell[Waiter] = InboxBell(self.woken.append, lambda: self.now)


@pytest.fixture
def rung() -> Rung:
    return Rung()


def test_what_was_found_before_a_ring_is_not_believed(rung: Rung) -> None:
    bell = rung.bell
    looked_at = bell.last_ring(1)
    bell.ring(1)
    bell.learn_empty(1, looked_at)
    bell.learn_recorded(1, 10, looked_at)
    assert 1 not in bell.empty
    assert not bell.is_recorded(1, 1)
    bell.learn_empty(1, bell.last_ring(1))
    assert 1 in bell.empty


def test_a_ring_concerns_one_client(rung: Rung) -> None:
    bell = rung.bell
    for client in (1, 2):
        bell.learn_empty(client, bell.last_ring(client))
        bell.learn_recorded(client, 10, bell.last_ring(client))
    bell.ring(1)
    assert list(bell.empty) == [2]
    assert [bell.is_recorded(client, 10) for client in (1, 2)] == [False, True]
    assert not bell.is_recorded(2, 11)


def test_a_ring_wakes_all_who_wait_for_the_client(rung: Rung) -> None:
    first, second, other = Waiter(1), Waiter(1), Waiter(2)
    for waiter in (first, second, other):
        rung.bell.park(waiter, None)
    rung.bell.ring(1)
    assert rung.woken == [first, second]
    assert rung.bell.everyone_waiting() == [other]
    assert rung.bell.waiting_count == 1
    rung.bell.ring_all()
    assert rung.woken == [first, second, other]
    assert rung.bell.waiting_count == 0


def test_who_has_left_is_not_woken(rung: Rung) -> None:
    waiter = Waiter(1)
    rung.bell.park(waiter, None)
    rung.bell.leave(waiter)
    rung.bell.leave(waiter)
    rung.bell.ring(1)
    assert (rung.woken, rung.bell.waiting_count) == ([], 0)


async def test_the_end_of_a_window_is_a_ring(rung: Rung) -> None:
    late, soon = Waiter(1), Waiter(1)
    rung.bell.park(late, rung.now + 3600)
    rung.bell.park(soon, rung.now)
    async with asyncio.timeout(10):
        while len(rung.woken) < 2:
            await asyncio.sleep(0.001)
    assert rung.woken == [late, soon]


async def test_a_window_nobody_waits_for_rings_nothing(rung: Rung) -> None:
    waiter = Waiter(1)
    rung.bell.park(waiter, rung.now + 3600)
    rung.bell.leave(waiter)
    assert not rung.bell._timers


def test_what_is_remembered_is_bounded(rung: Rung, monkeypatch: Any) -> None:
    monkeypatch.setattr(inbox_bell, "CLIENTS_MAX", 3)
    bell = rung.bell
    for client in range(10):
        bell.ring(client)
        bell.learn_recorded(client, 1, bell.last_ring(client))
        bell.learn_empty(client, bell.last_ring(client))
    assert len(bell.empty) <= 3
    assert len(bell._recorded) <= 3
    assert len(bell._rung_at) <= 3
