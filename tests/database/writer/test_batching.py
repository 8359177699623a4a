import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest
from structlog.testing import capture_logs

from restante.database.connection import Connection
from restante.database.errors import DatabaseUnavailable, UniqueViolation
from restante.database.sqlite import SqliteEngine
from restante.database.writer.batching import BatchCall, BatchOperation, Failed, resolve_calls
from restante.database.writer.writer import Writer
from tests.database.notes_table import Refused, add, add_with_event, everything
from tests.database.writer.test_writer import TIMEOUT_SECONDS, WriterHarness, adding, failing


class AddNotes:
    """A batched operation that adds notes; records its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.operation: BatchOperation[str, str] = BatchOperation(self._add_all)

    def _add_all(self, conn: Connection, texts: list[str]) -> list[str | Failed]:
        self.batches.append(list(texts))
        return [self._add(conn, text) for text in texts]

    def _add(self, conn: Connection, text: str) -> str | Failed:
        if text.startswith("refuse"):
            return Failed(Refused(text))
        add_with_event(conn, text)
        if text.startswith("raise"):
            raise Refused(text)
        return text.upper()


class Caller:
    """Submits batched calls without an event loop, and records their outcomes."""

    def __init__(self, harness: WriterHarness) -> None:
        self.harness = harness
        self.resolved: list[tuple[str, Any]] = []
        self._all_resolved = threading.Event()
        self._submitted = 0

    def submit(self, operation: BatchOperation[str, str], *texts: str) -> list[BatchCall[str, str]]:
        self._submitted += len(texts)
        calls = [BatchCall(operation, text, self._recorder(text), None) for text in texts]
        for call in calls:
            self.harness.writer.submit_batched(call)
        return calls

    def outcomes(self) -> dict[str, Any]:
        assert self._all_resolved.wait(TIMEOUT_SECONDS)
        return dict(self.resolved)

    def _recorder(self, text: str) -> Callable[[Any], None]:
        def then(outcome: object) -> None:
            self.resolved.append((text, outcome))
            if len(self.resolved) == self._submitted:
                self._all_resolved.set()

        return then


@pytest.fixture
def harness(engine: SqliteEngine) -> Iterator[WriterHarness]:
    harness = WriterHarness(engine)
    yield harness
    harness.unblock()
    harness.writer.close()


@pytest.fixture
def caller(harness: WriterHarness) -> Caller:
    harness.block()
    return Caller(harness)


def test_queued_calls_become_one_batch_in_their_order(harness: WriterHarness, caller: Caller) -> None:
    notes = AddNotes()
    caller.submit(notes.operation, "a", "b", "c")
    harness.unblock()
    assert caller.outcomes() == {"a": "A", "b": "B", "c": "C"}
    assert [text for text, _ in caller.resolved] == ["a", "b", "c"]
    assert notes.batches == [["a", "b", "c"]]
    assert (harness.writer.commits, harness.writer.writes) == (2, 4)


def test_failed_outcome_affects_no_other_call_and_causes_no_second_run(harness: WriterHarness, caller: Caller) -> None:
    notes = AddNotes()
    caller.submit(notes.operation, "a", "refuse", "b")
    harness.unblock()
    outcomes = caller.outcomes()
    assert isinstance(outcomes.pop("refuse").error, Refused)
    assert outcomes == {"a": "A", "b": "B"}
    assert len(notes.batches) == 1
    assert harness.notes() == ["a", "b"]


def test_batch_that_raises_is_run_call_by_call_and_resolved_once(harness: WriterHarness, caller: Caller) -> None:
    notes = AddNotes()
    caller.submit(notes.operation, "a", "raise", "b")
    harness.unblock()
    outcomes = caller.outcomes()
    assert isinstance(outcomes.pop("raise").error, Refused)
    assert outcomes == {"a": "A", "b": "B"}
    assert notes.batches == [["a", "raise", "b"], ["a"], ["raise"], ["b"]]
    assert len(caller.resolved) == 3
    assert harness.notes() == harness.listener.events == ["a", "b"]


def test_call_that_the_database_refuses_affects_no_other_call(harness: WriterHarness, caller: Caller) -> None:
    caller.submit(AddNotes().operation, "a", "b")
    twice = Caller(harness)
    twice.submit(AddNotes().operation, "a")
    harness.unblock()
    assert caller.outcomes() == {"a": "A", "b": "B"}
    assert isinstance(twice.outcomes()["a"].error, UniqueViolation)
    assert harness.notes() == ["a", "b"]


def test_batch_that_raises_without_changes_is_run_call_by_call_too(harness: WriterHarness, caller: Caller) -> None:
    def refuse_bad(_conn: Connection, texts: list[str]) -> list[str]:
        if "bad" in texts:
            raise Refused()
        return texts

    caller.submit(BatchOperation(refuse_bad), "a", "bad")
    harness.unblock()
    outcomes = caller.outcomes()
    assert outcomes["a"] == "a"
    assert isinstance(outcomes["bad"].error, Refused)


def test_missing_outcome_is_not_replaced_by_that_of_another_call(harness: WriterHarness, caller: Caller) -> None:
    def skip_lost(conn: Connection, texts: list[str]) -> list[str]:
        return [add(conn, text) for text in texts if text != "lost"]

    caller.submit(BatchOperation(skip_lost), "lost", "a")
    harness.unblock()
    outcomes = caller.outcomes()
    assert outcomes["a"] == "a"
    assert isinstance(outcomes["lost"].error, RuntimeError)


def test_different_operations_are_separate_batches_of_one_commit(harness: WriterHarness, caller: Caller) -> None:
    one, other = AddNotes(), AddNotes()
    caller.submit(one.operation, "a")
    caller.submit(other.operation, "b")
    caller.submit(one.operation, "c")
    harness.unblock()
    caller.outcomes()
    assert (one.batches, other.batches) == ([["a", "c"]], [["b"]])
    assert harness.writer.commits == 2


def test_ordinary_writes_run_in_order_before_batched_calls(harness: WriterHarness, caller: Caller) -> None:
    before = harness.writer.submit(adding("before"))
    caller.submit(AddNotes().operation, "batched")
    after = harness.writer.submit(adding("after"))
    harness.unblock()
    assert (before.result(TIMEOUT_SECONDS), after.result(TIMEOUT_SECONDS)) == ("before", "after")
    caller.outcomes()
    assert harness.notes() == ["before", "after", "batched"]
    assert harness.writer.commits == 2


def test_failing_ordinary_write_affects_no_batched_call(harness: WriterHarness, caller: Caller) -> None:
    bad = harness.writer.submit(failing("bad"))
    caller.submit(AddNotes().operation, "a", "b")
    harness.unblock()
    assert caller.outcomes() == {"a": "A", "b": "B"}
    assert isinstance(bad.exception(TIMEOUT_SECONDS), Refused)
    assert harness.notes() == ["a", "b"]


def test_call_cancelled_while_queued_never_runs(harness: WriterHarness, caller: Caller) -> None:
    notes = AddNotes()
    gone, _ = caller.submit(notes.operation, "gone", "a")
    gone.cancel()
    harness.unblock()
    outcomes = caller.outcomes()
    assert isinstance(outcomes["gone"].error, CancelledError)
    assert outcomes["a"] == "A"
    assert notes.batches == [["a"]]


def test_call_is_resolved_after_the_commit(harness: WriterHarness) -> None:
    seen: Future[list[str]] = Future()
    call: BatchCall[str, str] = BatchCall(AddNotes().operation, "a", lambda _: seen.set_result(harness.notes()), None)
    harness.writer.submit_batched(call)
    assert seen.result(TIMEOUT_SECONDS) == ["a"]


def test_call_after_close_is_refused(engine: SqliteEngine) -> None:
    closed = WriterHarness(engine)
    closed.writer.close()
    late = Caller(closed)
    late.submit(AddNotes().operation, "late")
    assert isinstance(late.outcomes()["late"].error, DatabaseUnavailable)


def test_close_runs_all_accepted_calls(engine: SqliteEngine) -> None:
    closing = WriterHarness(engine)
    closing.block()
    caller = Caller(closing)
    caller.submit(AddNotes().operation, "a")
    thread = threading.Thread(target=closing.writer.close)
    thread.start()
    closing.unblock()
    thread.join(TIMEOUT_SECONDS)
    assert caller.outcomes() == {"a": "A"}


async def test_callbacks_run_in_the_loop_of_the_caller_and_fail_independently(
    engine: SqliteEngine,
) -> None:
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    resolved: list[tuple[str, int]] = []
    all_resolved = asyncio.Event()

    def then(outcome: Any) -> None:
        resolved.append((outcome, threading.get_ident()))
        if len(resolved) == 3:
            all_resolved.set()
        if outcome == "A":
            raise ValueError

    writer = Writer([engine.connect(writable=True)], [])
    notes = AddNotes()
    with capture_logs() as lines:
        for text in "abc":
            writer.submit_batched(BatchCall(notes.operation, text, then, loop))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await all_resolved.wait()
    writer.close()
    assert resolved == [("A", here), ("B", here), ("C", here)]
    assert [line["event"] for line in lines] == ["outcome callback failed"]


def test_calls_of_a_closed_loop_are_dropped(harness: WriterHarness) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    resolved: list[object] = []
    here: BatchCall[str, str] = BatchCall(AddNotes().operation, "a", resolved.append, None)
    gone: BatchCall[str, str] = BatchCall(AddNotes().operation, "a", resolved.append, loop)
    resolve_calls([gone, here])
    assert resolved == [None]


def test_many_calls_at_once_are_all_stored(harness: WriterHarness) -> None:
    notes, caller = AddNotes(), Caller(harness)
    texts = [f"note {n}" for n in range(600)]
    caller.submit(notes.operation, *texts)
    assert caller.outcomes() == {text: text.upper() for text in texts}
    assert harness.notes() == texts
    reading = harness.engine.connect(writable=False)
    assert everything(reading) == texts
    reading.close()
