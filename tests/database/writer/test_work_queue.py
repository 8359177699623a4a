import threading
from collections.abc import Callable

from restante.database.writer.work_queue import ThreadWaker, WorkQueue

TIMEOUT_SECONDS = 10.0
MANY = 1000


class IdleWriter(threading.Thread):
    """A thread that waits for items, once."""

    def __init__(self, work: WorkQueue[int]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.waker = ThreadWaker()
        self._items: list[int] | None = None

    def run(self) -> None:
        self._items = self._work.get(self.waker, MANY)

    def park(self) -> "IdleWriter":
        self.start()
        wait_until(lambda: self.waker in self._work._idle)
        return self

    def items(self) -> list[int] | None:
        self.join(TIMEOUT_SECONDS)
        return self._items


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if condition():
            return
        pause.wait(TIMEOUT_SECONDS / 1000)
    raise TimeoutError


def test_queued_items_are_returned_in_order_up_to_the_limit() -> None:
    work: WorkQueue[int] = WorkQueue()
    for number in range(5):
        assert work.put(number)
    waker = ThreadWaker()
    assert work.get(waker, 3) == [0, 1, 2]
    assert work.get(waker, 3) == [3, 4]


def test_get_returns_nothing_after_its_timeout() -> None:
    work: WorkQueue[int] = WorkQueue()
    waker = ThreadWaker()
    assert work.get(waker, 1, timeout_seconds=0) == []
    assert work.get(waker, 1, timeout_seconds=0.001) == []
    assert work.put(7)
    assert work.get(waker, 1, timeout_seconds=0.001) == [7]


def test_writer_that_parked_last_is_woken_first() -> None:
    work: WorkQueue[int] = WorkQueue()
    first, last = IdleWriter(work).park(), IdleWriter(work).park()
    work.put(1)
    assert last.items() == [1]
    assert first.is_alive()
    work.put(2)
    assert first.items() == [2]


def test_one_writer_is_woken_for_all_items_put_before_it_runs() -> None:
    work: WorkQueue[int] = WorkQueue()
    first, last = IdleWriter(work).park(), IdleWriter(work).park()
    with work._guard:
        # No writer can resume meanwhile.
        work._queued.extend([1, 2])
        work._wake_one()
        work._wake_one()
    assert last.items() == [1, 2]
    assert first.is_alive()
    work.close()
    assert first.items() == []


def test_items_left_by_one_writer_wake_the_next() -> None:
    work: WorkQueue[int] = WorkQueue()
    work.put(1)
    work.put(2)
    waker = ThreadWaker()
    with work._guard:
        # Both items are already queued when the other writer parks: it is not woken for them.
        other = IdleWriter(work)
        work._idle.append(other.waker)
    assert work.get(waker, 1) == [1]
    assert work._idle == []
    assert other.waker.wait(0)


def test_writer_woken_just_after_its_timeout_gets_the_item() -> None:
    work: WorkQueue[int] = WorkQueue()

    class WokenAfterTimeout(ThreadWaker):
        """It is woken just after its timeout, before the queue knows of the timeout."""

        def wait(self, seconds: float | None) -> bool:
            if seconds is None:
                return super().wait(TIMEOUT_SECONDS)
            work.put(1)
            return False

    late = WokenAfterTimeout()
    assert work.get(late, MANY, timeout_seconds=1) == [1]
    assert not late._lock.acquire(blocking=False), "the one wake-up was consumed"


def test_closed_queue_still_returns_accepted_items_and_refuses_new_ones() -> None:
    work: WorkQueue[int] = WorkQueue()
    idle = IdleWriter(work).park()
    work.close()
    assert idle.items() == []
    assert not work.put(1)

    accepted: WorkQueue[int] = WorkQueue()
    accepted.put(1)
    accepted.close()
    assert not accepted.is_drained
    assert accepted.get(ThreadWaker(), MANY) == [1]
    assert accepted.is_drained
    assert accepted.get(ThreadWaker(), MANY) == []


def test_every_item_is_returned_exactly_once() -> None:
    work: WorkQueue[int] = WorkQueue()
    received: list[list[int]] = [[] for _ in range(4)]

    def get_all(own: list[int]) -> None:
        waker = ThreadWaker()
        while not work.is_drained:
            own += work.get(waker, 3)

    def put_some(first: int) -> None:
        for number in range(first, first + 500):
            work.put(number)

    writers = [threading.Thread(target=get_all, args=(own,)) for own in received]
    putters = [threading.Thread(target=put_some, args=(first,)) for first in range(0, 2000, 500)]
    for thread in (*writers, *putters):
        thread.start()
    for thread in putters:
        thread.join(TIMEOUT_SECONDS)
    work.close()
    for thread in writers:
        thread.join(TIMEOUT_SECONDS)
    assert sorted(number for own in received for number in own) == list(range(2000))
