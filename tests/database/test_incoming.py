import threading
from collections.abc import Callable

from restante.database.incoming import Bell, Incoming

SOON = 10.0
MANY = 1000


class Sleeper(threading.Thread):
    """Waits for something, once."""

    def __init__(self, incoming: Incoming[int]) -> None:
        super().__init__(daemon=True)
        self._incoming = incoming
        self._bell = Bell()
        self.taken: list[int] | None = None

    def run(self) -> None:
        self.taken = self._incoming.take(self._bell, MANY)

    def fall_asleep(self) -> "Sleeper":
        self.start()
        wait_until(lambda: self._bell in self._incoming._asleep)
        return self

    def wake_up(self) -> list[int] | None:
        self.join(SOON)
        return self.taken


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if holds():
            return
        pause.wait(SOON / 1000)
    raise TimeoutError


def test_what_waits_is_taken_in_its_order_up_to_a_bound() -> None:
    incoming: Incoming[int] = Incoming()
    for number in range(5):
        assert incoming.put(number)
    bell = Bell()
    assert incoming.take(bell, 3) == [0, 1, 2]
    assert incoming.take(bell, 3) == [3, 4]


def test_nothing_is_taken_where_nothing_comes() -> None:
    incoming: Incoming[int] = Incoming()
    bell = Bell()
    assert incoming.take(bell, 1, seconds=0) == []
    assert incoming.take(bell, 1, seconds=0.001) == []
    assert incoming.put(7)
    assert incoming.take(bell, 1, seconds=0.001) == [7]


def test_who_fell_asleep_last_is_called_first() -> None:
    incoming: Incoming[int] = Incoming()
    first, last = Sleeper(incoming).fall_asleep(), Sleeper(incoming).fall_asleep()
    incoming.put(1)
    assert last.wake_up() == [1]
    assert first.is_alive()
    incoming.put(2)
    assert first.wake_up() == [2]


def test_one_is_called_for_all_that_comes_until_it_is_awake() -> None:
    incoming: Incoming[int] = Incoming()
    first, last = Sleeper(incoming).fall_asleep(), Sleeper(incoming).fall_asleep()
    with incoming._guard:
        # Nobody can wake up meanwhile.
        incoming._waiting.extend([1, 2])
        incoming._call_one()
        incoming._call_one()
    assert last.wake_up() == [1, 2]
    assert first.is_alive()
    incoming.close()
    assert first.wake_up() == []


def test_what_one_leaves_calls_the_next() -> None:
    incoming: Incoming[int] = Incoming()
    incoming.put(1)
    incoming.put(2)
    bell = Bell()
    with incoming._guard:
        # Both wait already when the other falls asleep: it is not called for them.
        other = Sleeper(incoming)
        incoming._asleep.append(other._bell)
    assert incoming.take(bell, 1) == [1]
    assert incoming._asleep == []
    assert other._bell.wait(0)


def test_who_gives_up_in_the_moment_in_which_it_is_called_takes_what_it_was_called_for() -> None:
    incoming: Incoming[int] = Incoming()

    class Late(Bell):
        """Its owner stops waiting; before it can say so, it is called."""

        def wait(self, seconds: float | None) -> bool:
            if seconds is None:
                return super().wait(SOON)
            incoming.put(1)
            return False

    late = Late()
    assert incoming.take(late, MANY, seconds=1) == [1]
    assert not late._lock.acquire(blocking=False), "it was rung once, and heard once"


def test_what_was_accepted_is_still_taken_after_the_close_and_nothing_else_comes() -> None:
    incoming: Incoming[int] = Incoming()
    sleeper = Sleeper(incoming).fall_asleep()
    incoming.close()
    assert sleeper.wake_up() == []
    assert not incoming.put(1)

    accepted: Incoming[int] = Incoming()
    accepted.put(1)
    accepted.close()
    assert not accepted.is_over
    assert accepted.take(Bell(), MANY) == [1]
    assert accepted.is_over
    assert accepted.take(Bell(), MANY) == []


def test_everything_is_taken_once_by_somebody() -> None:
    incoming: Incoming[int] = Incoming()
    taken: list[list[int]] = [[] for _ in range(4)]

    def take_all(own: list[int]) -> None:
        bell = Bell()
        while not incoming.is_over:
            own += incoming.take(bell, 3)

    def put_some(first: int) -> None:
        for number in range(first, first + 500):
            incoming.put(number)

    takers = [threading.Thread(target=take_all, args=(own,)) for own in taken]
    givers = [threading.Thread(target=put_some, args=(first,)) for first in range(0, 2000, 500)]
    for thread in (*takers, *givers):
        thread.start()
    for thread in givers:
        thread.join(SOON)
    incoming.close()
    for thread in takers:
        thread.join(SOON)
    assert sorted(number for own in taken for number in own) == list(range(2000))
