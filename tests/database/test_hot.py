import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from structlog.testing import capture_logs

from restante.database.connection import Connection
from restante.database.errors import DatabaseUnavailable, UniqueViolation
from restante.database.hot import Failed, HotCall, HotOperation, hand_back
from restante.database.sqlite import SqliteEngine
from restante.database.writer import Writer
from tests.database.notes import Refused, add, add_and_announce, everything
from tests.database.test_writer import SOON, Bench, adding, failing


class Notes:
    """A hot operation that writes notes, and what lists it was called with."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self.operation: HotOperation[str, str] = HotOperation(self._add_all)

    def _add_all(self, conn: Connection, texts: list[str]) -> list[str | Failed]:
        self.lists.append(list(texts))
        return [self._add(conn, text) for text in texts]

    def _add(self, conn: Connection, text: str) -> str | Failed:
        if text.startswith("refuse"):
            return Failed(Refused(text))
        add_and_announce(conn, text)
        if text.startswith("raise"):
            raise Refused(text)
        return text.upper()


class Asking:
    """Hot calls from no loop, and their outcomes as they are told."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.told: list[tuple[str, Any]] = []
        self._all_told = threading.Event()
        self._asked = 0

    def ask(self, operation: HotOperation[str, str], *texts: str) -> list[HotCall[str, str]]:
        self._asked += len(texts)
        calls = [HotCall(operation, text, self._teller(text), None) for text in texts]
        for call in calls:
            self.bench.writer.submit_hot(call)
        return calls

    def outcomes(self) -> dict[str, Any]:
        assert self._all_told.wait(SOON)
        return dict(self.told)

    def _teller(self, text: str) -> Callable[[Any], None]:
        def then(outcome: object) -> None:
            self.told.append((text, outcome))
            if len(self.told) == self._asked:
                self._all_told.set()

        return then


@pytest.fixture
def bench(engine: SqliteEngine) -> Iterator[Bench]:
    bench = Bench(engine)
    yield bench
    bench.let_go()
    bench.writer.close()


@pytest.fixture
def asking(bench: Bench) -> Asking:
    bench.hold()
    return Asking(bench)


def test_calls_that_wait_together_are_one_call_with_a_list_in_their_order(bench: Bench, asking: Asking) -> None:
    notes = Notes()
    asking.ask(notes.operation, "a", "b", "c")
    bench.let_go()
    assert asking.outcomes() == {"a": "A", "b": "B", "c": "C"}
    assert [text for text, _ in asking.told] == ["a", "b", "c"]
    assert notes.lists == [["a", "b", "c"]]
    assert (bench.writer.commits, bench.writer.writes) == (2, 4)


def test_one_that_fails_costs_the_others_nothing_and_no_second_run(bench: Bench, asking: Asking) -> None:
    notes = Notes()
    asking.ask(notes.operation, "a", "refuse", "b")
    bench.let_go()
    outcomes = asking.outcomes()
    assert isinstance(outcomes.pop("refuse").error, Refused)
    assert outcomes == {"a": "A", "b": "B"}
    assert len(notes.lists) == 1
    assert bench.notes() == ["a", "b"]


def test_where_the_list_raises_each_runs_alone_and_is_told_once(bench: Bench, asking: Asking) -> None:
    notes = Notes()
    asking.ask(notes.operation, "a", "raise", "b")
    bench.let_go()
    outcomes = asking.outcomes()
    assert isinstance(outcomes.pop("raise").error, Refused)
    assert outcomes == {"a": "A", "b": "B"}
    assert notes.lists == [["a", "raise", "b"], ["a"], ["raise"], ["b"]]
    assert len(asking.told) == 3
    assert bench.notes() == bench.told.events == ["a", "b"]


def test_one_that_the_database_refuses_costs_the_others_nothing(bench: Bench, asking: Asking) -> None:
    asking.ask(Notes().operation, "a", "b")
    twice = Asking(bench)
    twice.ask(Notes().operation, "a")
    bench.let_go()
    assert asking.outcomes() == {"a": "A", "b": "B"}
    assert isinstance(twice.outcomes()["a"].error, UniqueViolation)
    assert bench.notes() == ["a", "b"]


def test_a_list_that_raises_having_changed_nothing_is_run_one_by_one_too(bench: Bench, asking: Asking) -> None:
    def picky(_conn: Connection, texts: list[str]) -> list[str]:
        if "bad" in texts:
            raise Refused()
        return texts

    asking.ask(HotOperation(picky), "a", "bad")
    bench.let_go()
    outcomes = asking.outcomes()
    assert outcomes["a"] == "a"
    assert isinstance(outcomes["bad"].error, Refused)


def test_an_operation_that_loses_an_outcome_gives_nobody_anothers(bench: Bench, asking: Asking) -> None:
    def forgetful(conn: Connection, texts: list[str]) -> list[str]:
        return [add(conn, text) for text in texts if text != "lost"]

    asking.ask(HotOperation(forgetful), "lost", "a")
    bench.let_go()
    outcomes = asking.outcomes()
    assert outcomes["a"] == "a"
    assert isinstance(outcomes["lost"].error, RuntimeError)


def test_operations_are_not_mixed_up(bench: Bench, asking: Asking) -> None:
    one, other = Notes(), Notes()
    asking.ask(one.operation, "a")
    asking.ask(other.operation, "b")
    asking.ask(one.operation, "c")
    bench.let_go()
    asking.outcomes()
    assert (one.lists, other.lists) == ([["a", "c"]], [["b"]])
    assert bench.writer.commits == 2


def test_ordinary_writes_of_the_batch_run_first_and_in_their_order(bench: Bench, asking: Asking) -> None:
    before = bench.writer.submit(adding("before"))
    asking.ask(Notes().operation, "hot")
    after = bench.writer.submit(adding("after"))
    bench.let_go()
    assert (before.result(SOON), after.result(SOON)) == ("before", "after")
    asking.outcomes()
    assert bench.notes() == ["before", "after", "hot"]
    assert bench.writer.commits == 2


def test_an_ordinary_write_that_fails_costs_a_hot_call_nothing(bench: Bench, asking: Asking) -> None:
    bad = bench.writer.submit(failing("bad"))
    asking.ask(Notes().operation, "a", "b")
    bench.let_go()
    assert asking.outcomes() == {"a": "A", "b": "B"}
    assert isinstance(bad.exception(SOON), Refused)
    assert bench.notes() == ["a", "b"]


def test_who_has_gone_before_its_turn_is_told_so_and_not_served(bench: Bench, asking: Asking) -> None:
    notes = Notes()
    gone, _ = asking.ask(notes.operation, "gone", "a")
    gone.cancel()
    bench.let_go()
    outcomes = asking.outcomes()
    assert isinstance(outcomes["gone"].error, CancelledError)
    assert outcomes["a"] == "A"
    assert notes.lists == [["a"]]


def test_nobody_is_told_before_the_commit(bench: Bench) -> None:
    seen: Future[list[str]] = Future()
    call: HotCall[str, str] = HotCall(Notes().operation, "a", lambda _: seen.set_result(bench.notes()), None)
    bench.writer.submit_hot(call)
    assert seen.result(SOON) == ["a"]


def test_after_close_a_call_is_refused(engine: SqliteEngine) -> None:
    closed = Bench(engine)
    closed.writer.close()
    late = Asking(closed)
    late.ask(Notes().operation, "late")
    assert isinstance(late.outcomes()["late"].error, DatabaseUnavailable)


def test_close_finishes_what_was_accepted(engine: SqliteEngine) -> None:
    closing = Bench(engine)
    closing.hold()
    asking = Asking(closing)
    asking.ask(Notes().operation, "a")
    thread = threading.Thread(target=closing.writer.close)
    thread.start()
    closing.let_go()
    thread.join(SOON)
    assert asking.outcomes() == {"a": "A"}


async def test_outcomes_come_in_the_loop_that_asked_and_one_that_fails_there_costs_the_others_nothing(
    engine: SqliteEngine,
) -> None:
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    told: list[tuple[str, int]] = []
    all_told = asyncio.Event()

    def then(outcome: Any) -> None:
        told.append((outcome, threading.get_ident()))
        if len(told) == 3:
            all_told.set()
        if outcome == "A":
            raise ValueError

    writer = Writer([engine.connect(writable=True)], [])
    notes = Notes()
    with capture_logs() as lines:
        for text in "abc":
            writer.submit_hot(HotCall(notes.operation, text, then, loop))
        async with asyncio.timeout(SOON):
            await all_told.wait()
    writer.close()
    assert told == [("A", here), ("B", here), ("C", here)]
    assert [line["event"] for line in lines] == ["an outcome could not be handed back"]


def test_a_loop_that_has_closed_is_owed_nothing(bench: Bench) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    told: list[object] = []
    here: HotCall[str, str] = HotCall(Notes().operation, "a", told.append, None)
    gone: HotCall[str, str] = HotCall(Notes().operation, "a", told.append, loop)
    hand_back([gone, here])
    assert told == [None]


def test_everything_is_there_after_many_at_once(bench: Bench) -> None:
    notes, asking = Notes(), Asking(bench)
    texts = [f"note {n}" for n in range(600)]
    asking.ask(notes.operation, *texts)
    assert asking.outcomes() == {text: text.upper() for text in texts}
    assert bench.notes() == texts
    reading = bench.engine.connect(writable=False)
    assert everything(reading) == texts
    reading.close()
