from hypothesis import given
from hypothesis import strategies as st

from restante.server.http.deadlines import NEVER, RECHECK_SECONDS, REMOVED, SLOT_SECONDS, Deadlines


class Timed:
    """An object with a deadline. It counts how often it fired, and then sets the deadline `then`."""

    def __init__(self, due: float, then: float = NEVER) -> None:
        self.due = due
        self.slot = -1
        self.then = then
        self.fired = 0

    def on_due(self) -> None:
        self.fired += 1
        self.due = self.then


class FailingTimed(Timed):
    def on_due(self) -> None:
        super().on_due()
        raise RuntimeError("callback failed")


def tick_until(deadlines: Deadlines, start: float, end: float) -> None:
    steps = round((end - start) / SLOT_SECONDS)
    for step in range(1, steps + 1):
        deadlines.tick(start + step * SLOT_SECONDS)


def test_deadline_fires_never_early_and_at_most_one_slot_late() -> None:
    deadlines = Deadlines(100.0)
    timed = Timed(101.01)
    deadlines.watch(timed)
    deadlines.tick(101.0)
    assert timed.fired == 0
    deadlines.tick(101.01 + SLOT_SECONDS)
    assert timed.fired == 1


def test_deadline_fires_once() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(1.0)
    deadlines.watch(timed)
    tick_until(deadlines, 0.0, 50.0)
    assert timed.fired == 1


def test_later_deadline_needs_no_call() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(1.0)
    deadlines.watch(timed)
    timed.due = 3.0
    tick_until(deadlines, 0.0, 2.9)
    assert timed.fired == 0
    tick_until(deadlines, 2.9, 3.2)
    assert timed.fired == 1


def test_earlier_deadline_counts_after_watch() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(9.0)
    deadlines.watch(timed)
    timed.due = 1.0
    deadlines.watch(timed)
    tick_until(deadlines, 0.0, 1.2)
    assert timed.fired == 1
    tick_until(deadlines, 1.2, 20.0)
    assert timed.fired == 1


def test_removed_object_is_forgotten() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(1.0)
    deadlines.watch(timed)
    timed.due = REMOVED
    tick_until(deadlines, 0.0, 1.2)
    assert (timed.fired, timed.slot) == (0, -1)
    assert deadlines.is_idle


def test_object_removed_by_its_callback_is_forgotten() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(1.0, then=REMOVED)
    deadlines.watch(timed)
    tick_until(deadlines, 0.0, 1.2)
    assert timed.fired == 1
    assert deadlines.is_idle


def test_object_without_deadline_is_rechecked() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(1.0)
    deadlines.watch(timed)
    tick_until(deadlines, 0.0, 2.0)
    # Set without a call of watch: noticed at the next check.
    timed.due = 5.0
    tick_until(deadlines, 2.0, 2.0 + RECHECK_SECONDS)
    assert timed.fired == 2


def test_object_without_deadline_may_be_watched() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(NEVER)
    deadlines.watch(timed)
    tick_until(deadlines, 0.0, 15.0)
    assert timed.fired == 0
    timed.due = 16.0
    deadlines.watch(timed)
    tick_until(deadlines, 15.0, 16.2)
    assert timed.fired == 1


def test_late_tick_catches_up() -> None:
    deadlines = Deadlines(0.0)
    objects = [Timed(n / 10) for n in range(1, 50)]
    for timed in objects:
        deadlines.watch(timed)
    deadlines.tick(60.0)
    assert [timed.fired for timed in objects] == [1] * 49


def test_past_deadline_fires_in_next_slot() -> None:
    deadlines = Deadlines(10.0)
    timed = Timed(3.0)
    deadlines.watch(timed)
    deadlines.tick(10.0 + SLOT_SECONDS)
    assert timed.fired == 1


def test_callback_that_sets_past_deadline_does_not_block_tick() -> None:
    deadlines = Deadlines(0.0)
    timed = Timed(0.1, then=0.1)
    deadlines.watch(timed)
    deadlines.tick(1.0)
    assert 1 <= timed.fired <= 1.0 / SLOT_SECONDS


def test_failing_callback_does_not_affect_others() -> None:
    deadlines = Deadlines(0.0)
    objects = [Timed(1.0), FailingTimed(1.0, then=2.0), Timed(1.0)]
    for timed in objects:
        deadlines.watch(timed)
    tick_until(deadlines, 0.0, 1.2)
    assert [timed.fired for timed in objects] == [1, 1, 1]
    tick_until(deadlines, 1.2, 2.2)
    assert objects[1].fired >= 2


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0, 8), st.booleans()), max_size=30))
def test_each_moved_deadline_fires_once_in_time(moves: list[tuple[float, float, bool]]) -> None:
    deadlines = Deadlines(0.0)
    objects = []
    for first, second, in_between in moves:
        timed = Timed(first)
        deadlines.watch(timed)
        timed.due = second
        if in_between or second < first:
            deadlines.watch(timed)
        objects.append(timed)
    now = 0.0
    while now < 9.0:
        now += SLOT_SECONDS
        before = [(timed, timed.due, timed.fired) for timed in objects]
        deadlines.tick(now)
        for timed, due, fired in before:
            if timed.fired > fired:
                assert now - 3 * SLOT_SECONDS < due <= now
    assert [timed.fired for timed in objects] == [1] * len(objects)
