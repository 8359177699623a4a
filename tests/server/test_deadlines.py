from hypothesis import given
from hypothesis import strategies as st

from restante.server.deadlines import GONE, LOOK_AGAIN_SECONDS, NEVER, SLOT_SECONDS, Deadlines


class Thing:
    """Something timed, that notes when it fired and may then be given a new deadline."""

    def __init__(self, due: float, then: float = NEVER) -> None:
        self.due = due
        self.slot = -1
        self.then = then
        self.fired = 0

    def on_due(self) -> None:
        self.fired += 1
        self.due = self.then


class Broken(Thing):
    def on_due(self) -> None:
        super().on_due()
        raise RuntimeError("it broke")


def tick_until(deadlines: Deadlines, start: float, end: float) -> None:
    steps = round((end - start) / SLOT_SECONDS)
    for step in range(1, steps + 1):
        deadlines.tick(start + step * SLOT_SECONDS)


def test_a_thing_fires_when_it_is_due_never_early_and_at_most_a_slot_late() -> None:
    deadlines = Deadlines(100.0)
    thing = Thing(101.01)
    deadlines.watch(thing)
    deadlines.tick(101.0)
    assert thing.fired == 0
    deadlines.tick(101.01 + SLOT_SECONDS)
    assert thing.fired == 1


def test_it_fires_once() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(1.0)
    deadlines.watch(thing)
    tick_until(deadlines, 0.0, 50.0)
    assert thing.fired == 1


def test_a_deadline_moved_later_costs_nothing_and_is_kept() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(1.0)
    deadlines.watch(thing)
    thing.due = 3.0
    tick_until(deadlines, 0.0, 2.9)
    assert thing.fired == 0
    tick_until(deadlines, 2.9, 3.2)
    assert thing.fired == 1


def test_a_deadline_that_comes_nearer_is_kept_once_told() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(9.0)
    deadlines.watch(thing)
    thing.due = 1.0
    deadlines.watch(thing)
    tick_until(deadlines, 0.0, 1.2)
    assert thing.fired == 1
    tick_until(deadlines, 1.2, 20.0)
    assert thing.fired == 1


def test_a_thing_that_is_gone_is_let_go() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(1.0)
    deadlines.watch(thing)
    thing.due = GONE
    tick_until(deadlines, 0.0, 1.2)
    assert (thing.fired, thing.slot) == (0, -1)
    assert not deadlines._slots


def test_a_thing_gone_as_it_fires_is_let_go() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(1.0, then=GONE)
    deadlines.watch(thing)
    tick_until(deadlines, 0.0, 1.2)
    assert thing.fired == 1
    assert not deadlines._slots


def test_one_without_a_deadline_is_looked_at_again_and_heeds_a_new_one() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(1.0)
    deadlines.watch(thing)
    tick_until(deadlines, 0.0, 2.0)
    # Set without telling: seen with the next look, which is not far.
    thing.due = 5.0
    tick_until(deadlines, 2.0, 2.0 + LOOK_AGAIN_SECONDS)
    assert thing.fired == 2


def test_one_that_never_is_due_may_be_watched() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(NEVER)
    deadlines.watch(thing)
    tick_until(deadlines, 0.0, 15.0)
    assert thing.fired == 0
    thing.due = 16.0
    deadlines.watch(thing)
    tick_until(deadlines, 15.0, 16.2)
    assert thing.fired == 1


def test_a_late_tick_catches_up() -> None:
    deadlines = Deadlines(0.0)
    things = [Thing(n / 10) for n in range(1, 50)]
    for thing in things:
        deadlines.watch(thing)
    deadlines.tick(60.0)
    assert [thing.fired for thing in things] == [1] * 49


def test_one_due_already_fires_with_the_next_slot() -> None:
    deadlines = Deadlines(10.0)
    thing = Thing(3.0)
    deadlines.watch(thing)
    deadlines.tick(10.0 + SLOT_SECONDS)
    assert thing.fired == 1


def test_one_that_sets_itself_a_past_deadline_does_not_hold_up_the_tick() -> None:
    deadlines = Deadlines(0.0)
    thing = Thing(0.1, then=0.1)
    deadlines.watch(thing)
    deadlines.tick(1.0)
    assert 1 <= thing.fired <= 1.0 / SLOT_SECONDS


def test_one_that_breaks_costs_the_others_nothing() -> None:
    deadlines = Deadlines(0.0)
    things = [Thing(1.0), Broken(1.0, then=2.0), Thing(1.0)]
    for thing in things:
        deadlines.watch(thing)
    tick_until(deadlines, 0.0, 1.2)
    assert [thing.fired for thing in things] == [1, 1, 1]
    tick_until(deadlines, 1.2, 2.2)
    assert things[1].fired >= 2


@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0, 8), st.booleans()), max_size=30))
def test_whatever_is_moved_where_each_fires_once_in_its_time(moves: list[tuple[float, float, bool]]) -> None:
    deadlines = Deadlines(0.0)
    things = []
    for first, second, in_between in moves:
        thing = Thing(first)
        deadlines.watch(thing)
        thing.due = second
        if in_between or second < first:
            deadlines.watch(thing)
        things.append(thing)
    now = 0.0
    while now < 9.0:
        now += SLOT_SECONDS
        before = [(thing, thing.due, thing.fired) for thing in things]
        deadlines.tick(now)
        for thing, due, fired in before:
            if thing.fired > fired:
                assert now - 3 * SLOT_SECONDS < due <= now
    assert [thing.fired for thing in things] == [1] * len(things)
