import threading
from functools import partial

import pytest

from restante.database.external.worker_thread import Closed, WorkerThread

TIMEOUT_SECONDS = 30.0


def nothing() -> None:
    return None


def test_calls_run_in_order_in_one_thread() -> None:
    thread = WorkerThread("one")
    names = [thread.submit(lambda: threading.current_thread().name) for _ in range(3)]
    assert [name.result(TIMEOUT_SECONDS) for name in names] == ["one"] * 3
    done: list[int] = []
    for each in [thread.submit(partial(done.append, number)) for number in range(20)]:
        each.result(TIMEOUT_SECONDS)
    assert done == list(range(20))
    assert thread.close(nothing, TIMEOUT_SECONDS)


def test_failing_call_does_not_affect_the_next() -> None:
    thread = WorkerThread("one")
    failed = thread.submit(lambda: 1 // 0)
    assert thread.submit(lambda: 1).result(TIMEOUT_SECONDS) == 1
    with pytest.raises(ZeroDivisionError):
        failed.result(TIMEOUT_SECONDS)
    assert thread.close(nothing, TIMEOUT_SECONDS)


def test_close_runs_the_last_call_and_refuses_new_ones() -> None:
    thread = WorkerThread("one")
    done: list[str] = []
    thread.submit(lambda: done.append("accepted before"))
    assert thread.close(lambda: done.append("last"), TIMEOUT_SECONDS)
    assert done == ["accepted before", "last"]
    with pytest.raises(Closed):
        thread.submit(nothing)
    assert thread.close(lambda: done.append("twice"), TIMEOUT_SECONDS)
    assert done == ["accepted before", "last"]


def test_hanging_call_is_abandoned_on_close() -> None:
    thread = WorkerThread("one")
    may_continue = threading.Event()
    hanging = thread.submit(lambda: may_continue.wait(TIMEOUT_SECONDS))
    waiting = thread.submit(nothing)
    assert waiting.cancel()
    assert not thread.close(nothing, 0.01)
    may_continue.set()
    assert hanging.result(TIMEOUT_SECONDS)
    assert thread.close(nothing, TIMEOUT_SECONDS)
