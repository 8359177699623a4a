import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.writer.batching import BatchOperation, Failed
from tests.database.notes_table import Refused, add, add_then_refuse, add_with_event, everything, refuse
from tests.delivery.busy_database import hold_writers

TIMEOUT_SECONDS = 10.0


async def test_written_data_is_read_back(database: Database) -> None:
    assert await database.write(add, "a") == "a"
    assert await database.read(everything) == ["a"]


async def test_keyword_arguments_are_passed_on(database: Database) -> None:
    await database.write(add, text="a")
    assert database.read_now(everything) == ["a"]


async def test_concurrent_writes_share_commits_and_get_their_own_results(database: Database) -> None:
    texts = [str(n) for n in range(200)]
    assert await asyncio.gather(*(database.write(add, text) for text in texts)) == texts
    assert database.writes == 200
    assert database.commits < 100


async def test_error_reaches_only_its_caller(database: Database) -> None:
    outcomes = await asyncio.gather(
        database.write(add, "a"),
        database.write(add_then_refuse, "bad"),
        database.write(refuse),
        database.write(add, "b"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [str, Refused, Refused, str]
    assert database.read_now(everything) == ["a", "b"]


def test_write_now_and_read_now_need_no_event_loop(database: Database) -> None:
    assert database.write_now(add, "a") == "a"
    with pytest.raises(UniqueViolation):
        database.write_now(add, "a")
    assert database.read_now(everything) == ["a"]


def test_read_uses_one_snapshot(database: Database) -> None:
    def read_around_a_write(conn: Connection) -> tuple[list[str], list[str]]:
        before = everything(conn)
        database.write_now(add, "a")
        return before, everything(conn)

    assert database.read_now(read_around_a_write) == ([], [])
    assert database.read_now(everything) == ["a"]


def test_failed_read_leaves_its_connection_usable(database: Database) -> None:
    for _ in range(2 * database.readers):
        with pytest.raises(DatabaseError):
            database.read_now(add, "a")
        with pytest.raises(Refused):
            database.read_now(refuse)
    assert database.read_now(everything) == []


def test_reads_do_not_wait_for_a_running_write(database: Database) -> None:
    is_running, may_continue = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        add(conn, "a")
        is_running.set()
        assert may_continue.wait(TIMEOUT_SECONDS)

    writing = database.submit(slow)
    assert is_running.wait(TIMEOUT_SECONDS)
    assert database.read_now(everything) == []
    may_continue.set()
    writing.result(TIMEOUT_SECONDS)
    assert database.read_now(everything) == ["a"]


def test_every_listener_gets_every_commit_even_if_one_fails(database: Database) -> None:
    published: list[list[object]] = []

    def broken(_commit_events: list[object]) -> None:
        raise RuntimeError("broken listener")

    database.on_commit(broken)
    database.on_commit(published.append)
    database.write_now(add_with_event, "a")
    database.write_now(add_with_event, "b")
    assert published == [["a"], ["b"]]


async def test_running_write_is_completed_when_its_caller_is_cancelled(database: Database) -> None:
    is_running, may_continue = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        is_running.set()
        assert may_continue.wait(TIMEOUT_SECONDS)
        add(conn, "a")

    task = asyncio.ensure_future(database.write(slow))
    await asyncio.to_thread(is_running.wait, TIMEOUT_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    may_continue.set()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while await database.read(everything) != ["a"]:
            await asyncio.sleep(0.01)


async def test_queued_write_never_runs_when_its_caller_is_cancelled(database: Database) -> None:
    release = await asyncio.to_thread(hold_writers, database)
    task = asyncio.ensure_future(database.write(add, "no"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(release)
    assert await database.read(everything) == []


def test_close_runs_accepted_writes_and_refuses_later_calls(engine: Engine) -> None:
    database = Database(engine)
    accepted = [database.submit(add, str(n)) for n in range(20)]
    database.close()
    assert [future.result(0) for future in accepted] == [str(n) for n in range(20)]
    with pytest.raises(DatabaseUnavailable):
        database.write_now(add, "late")
    with pytest.raises(DatabaseUnavailable):
        database.read_now(everything)


def test_many_threads_can_read_at_once(database: Database) -> None:
    database.write_now(add, "a")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: database.read_now(everything), range(200)))
    assert results == [["a"]] * 200


def add_in_upper_case(conn: Connection, texts: list[str]) -> list[str | Failed]:
    return [Failed(Refused(text)) if text == "bad" else add(conn, text).upper() for text in texts]


ADD_IN_UPPER_CASE: BatchOperation[str, str] = BatchOperation(add_in_upper_case)


async def test_batched_calls_get_their_own_result_or_error(database: Database) -> None:
    calls = (database.run_batched(ADD_IN_UPPER_CASE, text) for text in ("a", "bad", "b"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes[::2] == ["A", "B"]
    assert isinstance(outcomes[1], Refused)
    assert database.read_now(everything) == ["a", "b"]


def test_run_batched_now_needs_no_event_loop(database: Database) -> None:
    assert database.run_batched_now(ADD_IN_UPPER_CASE, "a") == "A"
    with pytest.raises(Refused):
        database.run_batched_now(ADD_IN_UPPER_CASE, "bad")


async def test_queued_batched_call_never_runs_when_its_caller_is_cancelled(database: Database) -> None:
    release = await asyncio.to_thread(hold_writers, database)
    task = asyncio.ensure_future(database.run_batched(ADD_IN_UPPER_CASE, "no"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(release)
    assert await database.run_batched(ADD_IN_UPPER_CASE, "yes") == "YES"
    assert await database.read(everything) == ["yes"]


def test_before_commit_runs_in_each_transaction_with_commit_events(database: Database) -> None:
    published: list[list[object]] = []
    database.on_commit(published.append)

    def prepare(conn: EngineConnection) -> None:
        last_event = conn.commit_events[-1]
        add(conn, f"prepared {last_event}")
        conn.add_commit_event("and more")

    database.before_commit(prepare)
    database.write_now(add, "without events")
    database.write_now(add_with_event, "a")
    assert database.read_now(everything) == ["without events", "a", "prepared a"]
    assert published == [["a", "and more"]]


def test_failing_preparation_fails_its_transaction(database: Database) -> None:
    database.before_commit(lambda conn: refuse(conn))
    with pytest.raises(Refused):
        database.write_now(add_with_event, "a")
    assert database.read_now(everything) == []
