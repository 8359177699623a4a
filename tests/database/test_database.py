import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.hot import Failed, HotOperation
from tests.database.notes import Refused, add, add_and_announce, add_then_refuse, everything, refuse
from tests.delivery.holding import hold_writers

SOON = 10.0


async def test_what_was_written_is_read(database: Database) -> None:
    assert await database.write(add, "a") == "a"
    assert await database.read(everything) == ["a"]


async def test_arguments_by_name_are_passed_on(database: Database) -> None:
    await database.write(add, text="a")
    assert database.read_now(everything) == ["a"]


async def test_many_writers_at_once_share_commits_and_each_gets_its_own_answer(database: Database) -> None:
    texts = [str(n) for n in range(200)]
    assert await asyncio.gather(*(database.write(add, text) for text in texts)) == texts
    assert database.writes == 200
    assert database.commits < 100


async def test_errors_reach_the_caller_and_nobody_else(database: Database) -> None:
    outcomes = await asyncio.gather(
        database.write(add, "a"),
        database.write(add_then_refuse, "bad"),
        database.write(refuse),
        database.write(add, "b"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [str, Refused, Refused, str]
    assert database.read_now(everything) == ["a", "b"]


def test_without_a_loop_it_is_the_same(database: Database) -> None:
    assert database.write_now(add, "a") == "a"
    with pytest.raises(UniqueViolation):
        database.write_now(add, "a")
    assert database.read_now(everything) == ["a"]


def test_a_read_sees_one_moment(database: Database) -> None:
    def read_around_a_write(conn: Connection) -> tuple[list[str], list[str]]:
        before = everything(conn)
        database.write_now(add, "a")
        return before, everything(conn)

    assert database.read_now(read_around_a_write) == ([], [])
    assert database.read_now(everything) == ["a"]


def test_a_read_cannot_write_and_leaves_its_connection_usable(database: Database) -> None:
    for _ in range(2 * database.readers):
        with pytest.raises(DatabaseError):
            database.read_now(add, "a")
        with pytest.raises(Refused):
            database.read_now(refuse)
    assert database.read_now(everything) == []


def test_reads_do_not_wait_for_a_write_that_is_under_way(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        add(conn, "a")
        begun.set()
        assert go_on.wait(SOON)

    writing = database.submit(slow)
    assert begun.wait(SOON)
    assert database.read_now(everything) == []
    go_on.set()
    writing.result(SOON)
    assert database.read_now(everything) == ["a"]


def test_every_listener_hears_every_commit_even_if_one_fails(database: Database) -> None:
    heard: list[list[object]] = []

    def broken(_announced: list[object]) -> None:
        raise RuntimeError("deaf")

    database.on_commit(broken)
    database.on_commit(heard.append)
    database.write_now(add_and_announce, "a")
    database.write_now(add_and_announce, "b")
    assert heard == [["a"], ["b"]]


async def test_a_write_whose_caller_went_away_is_done_all_the_same(database: Database) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(conn: Connection) -> None:
        begun.set()
        assert go_on.wait(SOON)
        add(conn, "a")

    task = asyncio.ensure_future(database.write(slow))
    await asyncio.to_thread(begun.wait, SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    async with asyncio.timeout(SOON):
        while await database.read(everything) != ["a"]:
            await asyncio.sleep(0.01)


async def test_a_write_whose_caller_went_away_before_its_turn_is_not_done(database: Database) -> None:
    let_go = await asyncio.to_thread(hold_writers, database)
    task = asyncio.ensure_future(database.write(add, "no"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(let_go)
    assert await database.read(everything) == []


def test_close_finishes_what_was_accepted_and_refuses_what_comes_later(engine: Engine) -> None:
    database = Database(engine)
    accepted = [database.submit(add, str(n)) for n in range(20)]
    database.close()
    assert [future.result(0) for future in accepted] == [str(n) for n in range(20)]
    with pytest.raises(DatabaseUnavailable):
        database.write_now(add, "late")
    with pytest.raises(DatabaseUnavailable):
        database.read_now(everything)


def test_many_threads_may_read_at_once(database: Database) -> None:
    database.write_now(add, "a")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: database.read_now(everything), range(200)))
    assert answers == [["a"]] * 200


def shout(conn: Connection, texts: list[str]) -> list[str | Failed]:
    return [Failed(Refused(text)) if text == "bad" else add(conn, text).upper() for text in texts]


SHOUT: HotOperation[str, str] = HotOperation(shout)


async def test_hot_calls_get_each_their_own_result_or_error(database: Database) -> None:
    calls = (database.run_hot(SHOUT, text) for text in ("a", "bad", "b"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes[::2] == ["A", "B"]
    assert isinstance(outcomes[1], Refused)
    assert database.read_now(everything) == ["a", "b"]


def test_hot_calls_without_a_loop_are_the_same(database: Database) -> None:
    assert database.run_hot_now(SHOUT, "a") == "A"
    with pytest.raises(Refused):
        database.run_hot_now(SHOUT, "bad")


async def test_a_hot_call_whose_caller_went_away_before_its_turn_is_not_done(database: Database) -> None:
    let_go = await asyncio.to_thread(hold_writers, database)
    task = asyncio.ensure_future(database.run_hot(SHOUT, "no"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(let_go)
    assert await database.run_hot(SHOUT, "yes") == "YES"
    assert await database.read(everything) == ["yes"]


def test_what_prepares_a_commit_runs_in_each_transaction_that_announces(database: Database) -> None:
    heard: list[list[object]] = []
    database.on_commit(heard.append)

    def prepare(conn: EngineConnection) -> None:
        announced = conn.announced[-1]
        add(conn, f"told {announced}")
        conn.announce("and more")

    database.before_commit(prepare)
    database.write_now(add, "quiet")
    database.write_now(add_and_announce, "a")
    assert database.read_now(everything) == ["quiet", "a", "told a"]
    assert heard == [["a", "and more"]]


def test_a_preparation_that_fails_costs_its_transaction(database: Database) -> None:
    database.before_commit(lambda conn: refuse(conn))
    with pytest.raises(Refused):
        database.write_now(add_and_announce, "a")
    assert database.read_now(everything) == []
