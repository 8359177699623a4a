import threading
from functools import partial

import pytest

from restante.database.one_thread import Closed, OneThread

SOON = 30.0


def nothing() -> None:
    return None


def test_work_is_done_in_its_order_in_one_thread_and_gives_back_what_came_of_it() -> None:
    thread = OneThread("one")
    names = [thread.submit(lambda: threading.current_thread().name) for _ in range(3)]
    assert [name.result(SOON) for name in names] == ["one"] * 3
    done: list[int] = []
    for each in [thread.submit(partial(done.append, number)) for number in range(20)]:
        each.result(SOON)
    assert done == list(range(20))
    assert thread.close(nothing, SOON)


def test_work_that_fails_costs_the_next_nothing() -> None:
    thread = OneThread("one")
    failed = thread.submit(lambda: 1 // 0)
    assert thread.submit(lambda: 1).result(SOON) == 1
    with pytest.raises(ZeroDivisionError):
        failed.result(SOON)
    assert thread.close(nothing, SOON)


def test_the_last_thing_is_done_last_and_nothing_more_is_taken() -> None:
    thread = OneThread("one")
    done: list[str] = []
    thread.submit(lambda: done.append("given before"))
    assert thread.close(lambda: done.append("last"), SOON)
    assert done == ["given before", "last"]
    with pytest.raises(Closed):
        thread.submit(nothing)
    assert thread.close(lambda: done.append("twice"), SOON)
    assert done == ["given before", "last"]


def test_work_that_hangs_is_left_behind() -> None:
    thread = OneThread("one")
    goes_on = threading.Event()
    hanging = thread.submit(lambda: goes_on.wait(SOON))
    waiting = thread.submit(nothing)
    assert waiting.cancel()
    assert not thread.close(nothing, 0.01)
    goes_on.set()
    assert hanging.result(SOON)
    assert thread.close(nothing, SOON)
