import asyncio

from restante.commands import site_bell
from restante.commands.site_bell import Quiet, SiteBell

NEVER = float("inf")


class Waiter:
    def __init__(self, site_id: int, looked_at: int) -> None:
        self.site_id = site_id
        self.looked_at = looked_at


class Ringing:
    """A bell with a clock that moves when told, and who was woken."""

    def __init__(self) -> None:
        self.now = 100.0
        self.woken: list[Waiter] = []
        self.bell: SiteBell[Waiter] = SiteBell(self.woken.append, lambda: self.now)

    def park(self, site_id: int = 1, until: float = NEVER) -> Waiter:
        waiter = Waiter(site_id, self.bell.last_ring(site_id))
        self.bell.park(waiter, until)
        return waiter


def test_remembers_quiet_until_its_moment() -> None:
    ringing = Ringing()
    bell = ringing.bell
    bell.learn(1, None, Quiet(105.0, 2), bell.last_ring(1))
    assert bell.quiet(1, None) == Quiet(105.0, 2)
    assert bell.quiet(2, None) is None
    assert bell.quiet(1, 7) is None
    ringing.now = 105.0
    assert bell.quiet(1, None) is None


def test_a_ring_ends_the_quiet_of_the_site_and_its_zones() -> None:
    bell = Ringing().bell
    for site, zone in ((1, None), (1, 7), (2, None)):
        bell.learn(site, zone, Quiet(NEVER, 0), bell.last_ring(site))
    bell.ring(1)
    assert bell.quiet(1, None) is None
    assert bell.quiet(1, 7) is None
    assert bell.quiet(2, None) is not None


def test_a_look_that_began_before_a_ring_teaches_nothing() -> None:
    bell = Ringing().bell
    looked_at = bell.last_ring(1)
    bell.ring(1)
    bell.learn(1, None, Quiet(NEVER, 0), looked_at)
    assert bell.quiet(1, None) is None
    looked_at = bell.last_ring(2)
    bell.forget_all()
    bell.learn(2, None, Quiet(NEVER, 0), looked_at)
    assert bell.quiet(2, None) is None


def test_a_ring_wakes_one_who_waited_longest() -> None:
    ringing = Ringing()
    first, second, other = ringing.park(), ringing.park(), ringing.park(2)
    ringing.bell.ring(1)
    assert ringing.woken == [first]
    ringing.bell.ring(1)
    assert ringing.woken == [first, second]
    ringing.bell.ring(1)
    assert ringing.woken == [first, second]
    assert list(ringing.bell.everyone_waiting()) == [other]
    assert ringing.bell.waiting_count == 1


def test_who_has_looked_since_the_ring_is_not_woken_by_it() -> None:
    ringing = Ringing()
    first, second = ringing.park(), ringing.park()
    ringing.bell.ring(1)
    again = ringing.park()
    ringing.bell.wake_next(1)
    ringing.bell.wake_next(1)
    assert ringing.woken == [first, second]
    ringing.bell.ring(1)
    assert ringing.woken == [first, second, again]


def test_a_foreign_commit_wakes_one_at_each_site() -> None:
    ringing = Ringing()
    first, _second, other = ringing.park(), ringing.park(), ringing.park(2)
    ringing.bell.learn(3, None, Quiet(NEVER, 0), ringing.bell.last_ring(3))
    ringing.bell.ring_all()
    assert ringing.woken == [first, other]
    assert ringing.bell.quiet(3, None) is None


async def test_a_moment_that_comes_wakes_one() -> None:
    ringing = Ringing()
    first = ringing.park(until=100.05)
    ringing.park(until=100.01)
    ringing.park(until=200.0)
    for _ in range(200):
        await asyncio.sleep(0.005)
        if ringing.woken:
            break
    assert ringing.woken == [first]


async def test_who_leaves_is_not_woken_and_takes_the_timer_along() -> None:
    ringing = Ringing()
    waiter = ringing.park(until=100.01)
    ringing.bell.leave(waiter)
    ringing.bell.leave(waiter)
    ringing.bell.ring(1)
    await asyncio.sleep(0.03)
    assert ringing.woken == []
    assert ringing.bell.waiting_count == 0


def test_memory_is_bounded() -> None:
    bell = Ringing().bell
    for site in range(site_bell.SITES_MAX + 5):
        bell.ring(site)
        bell.learn(site, None, Quiet(NEVER, 0), bell.last_ring(site))
    assert len(bell._quiet) <= site_bell.SITES_MAX
    assert len(bell._rung_at) <= site_bell.SITES_MAX


def test_a_ring_is_news_for_a_while() -> None:
    ringing = Ringing()
    assert not ringing.bell.was_rung_within(1, 1.0)
    ringing.bell.ring(1)
    assert ringing.bell.was_rung_within(1, 1.0)
    assert not ringing.bell.was_rung_within(2, 1.0)
    ringing.now += 1.0
    assert not ringing.bell.was_rung_within(1, 1.0)


async def test_a_moment_told_by_others_counts_where_somebody_waits_and_can_be_taken_back() -> None:
    ringing = Ringing()
    ringing.bell.arm(1, 100.01)
    first = ringing.park()
    ringing.bell.arm(1, 100.01)
    ringing.bell.disarm(1, 100.0)
    moments: list[int] = []
    ringing.bell.on_moment = moments.append
    for _ in range(200):
        await asyncio.sleep(0.005)
        if moments:
            break
    assert moments == [1]
    ringing.bell.arm(1, 100.02)
    ringing.bell.disarm(1, 200.0)
    ringing.bell.disarm(1, 200.0)
    assert ringing.bell._timers == {}
    assert ringing.woken == []
    ringing.bell.leave(first)
