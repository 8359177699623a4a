import asyncio

from restante.commands.polling import site_waiters
from restante.commands.polling.site_waiters import EmptyUntil, SiteWaiters
from restante.delivery.waiter_registry import NEVER


class Waiter:
    def __init__(self, site_id: int, notification: int) -> None:
        self.key = site_id
        self.notification = notification


class Registry(SiteWaiters[Waiter]):
    """Records which waiters it wakes and which due times come; has a clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.woken: list[Waiter] = []
        self.due: list[int] = []
        super().__init__(self.woken.append, lambda: self.now)

    def parked(self, site_id: int = 1, until: float = NEVER) -> Waiter:
        waiter = Waiter(site_id, self.last_notified(site_id))
        self.park(waiter, until)
        return waiter

    def handle_due(self, site_id: int) -> None:
        self.due.append(site_id)
        super().handle_due(site_id)


def test_empty_site_is_known_until_its_due_time() -> None:
    registry = Registry()
    registry.learn(1, None, EmptyUntil(105.0, 2), registry.last_notified(1))
    assert registry.empty_until(1, None) == EmptyUntil(105.0, 2)
    assert registry.empty_until(2, None) is None
    assert registry.empty_until(1, 7) is None
    registry.now = 105.0
    assert registry.empty_until(1, None) is None


def test_notification_drops_knowledge_of_the_site_and_its_zones() -> None:
    registry = Registry()
    for site, zone in ((1, None), (1, 7), (2, None)):
        registry.learn(site, zone, EmptyUntil(NEVER, 0), registry.last_notified(site))
    registry.notify(1)
    assert registry.empty_until(1, None) is None
    assert registry.empty_until(1, 7) is None
    assert registry.empty_until(2, None) is not None


def test_claim_that_began_before_a_notification_teaches_nothing() -> None:
    registry = Registry()
    notification = registry.last_notified(1)
    registry.notify(1)
    registry.learn(1, None, EmptyUntil(NEVER, 0), notification)
    assert registry.empty_until(1, None) is None
    notification = registry.last_notified(2)
    registry.forget_all()
    registry.learn(2, None, EmptyUntil(NEVER, 0), notification)
    assert registry.empty_until(2, None) is None


def test_notification_wakes_the_one_that_waited_longest() -> None:
    registry = Registry()
    first, second, other = registry.parked(), registry.parked(), registry.parked(2)
    registry.notify(1)
    assert registry.woken == [first]
    registry.notify(1)
    assert registry.woken == [first, second]
    registry.notify(1)
    assert registry.woken == [first, second]
    assert registry.all_waiters() == [other]
    assert registry.parked_count == 1


def test_waiter_whose_claim_followed_the_notification_is_not_woken_by_it() -> None:
    registry = Registry()
    first, second = registry.parked(), registry.parked()
    registry.notify(1)
    again = registry.parked()
    registry.wake(1)
    registry.wake(1)
    assert registry.woken == [first, second]
    registry.notify(1)
    assert registry.woken == [first, second, again]


def test_notify_all_wakes_one_waiter_of_each_site() -> None:
    registry = Registry()
    first, _second, other = registry.parked(), registry.parked(), registry.parked(2)
    registry.learn(3, None, EmptyUntil(NEVER, 0), registry.last_notified(3))
    registry.notify_all()
    assert registry.woken == [first, other]
    assert registry.empty_until(3, None) is None


async def test_due_time_wakes_one_waiter() -> None:
    registry = Registry()
    first = registry.parked(until=100.05)
    registry.parked(until=100.01)
    registry.parked(until=200.0)
    for _ in range(200):
        await asyncio.sleep(0.005)
        if registry.woken:
            break
    assert registry.woken == [first]


async def test_waiter_that_leaves_is_not_woken_and_its_timer_is_cancelled() -> None:
    registry = Registry()
    waiter = registry.parked(until=100.01)
    registry.leave(waiter)
    registry.leave(waiter)
    registry.notify(1)
    await asyncio.sleep(0.03)
    assert registry.woken == []
    assert registry.parked_count == 0


def test_memory_is_bounded() -> None:
    registry = Registry()
    for site in range(site_waiters.SITES_MAX + 5):
        registry.notify(site)
        registry.learn(site, None, EmptyUntil(NEVER, 0), registry.last_notified(site))
    assert len(registry.known) <= site_waiters.SITES_MAX
    assert len(registry._notified) <= site_waiters.SITES_MAX
    assert len(registry._notified_seconds) <= site_waiters.SITES_MAX


def test_notification_is_recent_for_a_while() -> None:
    registry = Registry()
    assert not registry.was_notified_within(1, 1.0)
    registry.notify(1)
    assert registry.was_notified_within(1, 1.0)
    assert not registry.was_notified_within(2, 1.0)
    registry.now += 1.0
    assert not registry.was_notified_within(1, 1.0)


async def test_due_time_is_armed_only_for_waiters_and_can_be_disarmed() -> None:
    registry = Registry()
    registry.arm(1, 100.01)
    assert registry._timers == {}
    first = registry.parked()
    registry.arm(1, 100.01)
    registry.disarm(1, 100.0)
    for _ in range(200):
        await asyncio.sleep(0.005)
        if registry.due:
            break
    assert registry.due == [1]
    assert registry.woken == [first]
    second = registry.parked()
    registry.arm(1, 100.02)
    registry.disarm(1, 200.0)
    registry.disarm(1, 200.0)
    assert registry._timers == {}
    assert registry.woken == [first]
    registry.leave(second)
