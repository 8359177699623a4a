import threading
from collections.abc import Hashable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from restante.database.connection import Connection
from restante.database.engine import Engine
from restante.database.hot import HotCall, HotOperation
from restante.database.postgres import PostgresEngine
from restante.database.turns import GATHERING_SECONDS, Turns
from restante.database.writer import Writer
from tests.database.notes import add, everything

SOON = 60


def call_about(what: Hashable) -> HotCall[Hashable, None]:
    operation: HotOperation[Hashable, None] = HotOperation(
        lambda _conn, asked: [None for _ in asked], about=lambda a: a
    )
    return HotCall(operation, what, lambda _outcome: None, None)


def test_what_is_about_nothing_is_served_by_who_takes_it() -> None:
    turns = Turns(2)
    plain: HotCall[str, None] = HotCall(HotOperation(lambda _conn, _asked: []), "a", lambda _outcome: None, None)
    assert turns.begin(1, [plain]) == [plain]
    assert turns.begin(2, [plain]) == [plain]
    assert turns.end(1) == []


def test_who_is_alone_serves_all() -> None:
    turns = Turns(1)
    calls = [call_about(7), call_about(7), call_about(8)]
    assert turns.begin(0, calls) == calls
    assert turns.end(0) == []


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> Turns:
    return Turns(2, clock)


def test_what_comes_while_somebody_has_only_just_begun_gathers_there(turns: Turns, clock: Clock) -> None:
    first, second, third = call_about(7), call_about(8), call_about(9)
    assert turns.begin(1, [first]) == [first]
    assert turns.begin(2, [second]) == []
    clock.now += 2 * GATHERING_SECONDS
    assert turns.begin(2, [third]) == [third]
    assert turns.end(1) == [second]
    # It is the second now who has only just begun.
    assert turns.begin(1, [second]) == []
    assert turns.end(2) == [second]


def test_what_comes_meanwhile_is_set_aside_for_who_is_at_it(turns: Turns, clock: Clock) -> None:
    first, second, third, other = call_about(7), call_about(7), call_about(7), call_about(8)
    assert turns.begin(1, [first]) == [first]
    clock.now += 2 * GATHERING_SECONDS
    assert turns.begin(2, [second, other, third]) == [other]
    assert turns.end(2) == []
    assert turns.end(1) == [second, third]


def test_what_nobody_is_at_any_more_is_anybodys() -> None:
    turns = Turns(2)
    turns.begin(1, [call_about(7), call_about(8)])
    turns.end(1)
    later = call_about(7)
    assert turns.begin(2, [later]) == [later]


def test_who_is_at_a_thing_takes_more_of_it() -> None:
    turns = Turns(2)
    calls = [call_about(7), call_about(7)]
    assert turns.begin(1, calls) == calls


class Gathering:
    """A hot operation that writes notes, held up at its first list; the lists it was called with."""

    def __init__(self, engine: Engine) -> None:
        self.lists: list[list[str]] = []
        self.is_at_work, self.may_go_on, self.all_told = threading.Event(), threading.Event(), threading.Event()
        self.operation: HotOperation[str, None] = HotOperation(self._add, about=lambda text: text[0])
        self.writer = Writer([engine.connect(writable=True) for _ in range(2)], [])
        # A second passes whenever somebody looks: nobody has only just begun.
        self.writer._turns = Turns(2, count(step=1.0).__next__)
        self._told: list[Any] = []
        self._asked = 0

    def ask(self, *texts: str) -> None:
        self._asked += len(texts)
        for text in texts:
            self.writer.submit_hot(HotCall(self.operation, text, self._tell, None))

    def _add(self, conn: Connection, texts: list[str]) -> list[None]:
        self.lists.append(texts)
        if texts == ["a1"]:
            self.is_at_work.set()
            assert self.may_go_on.wait(SOON)
        for text in texts:
            add(conn, text)
        return [None for _ in texts]

    def _tell(self, outcome: object) -> None:
        self._told.append(outcome)
        if len(self._told) == self._asked:
            self.all_told.set()


def notes_in(engine: Engine) -> list[str]:
    with closing(engine.connect(writable=False)) as conn:
        conn.begin()
        return sorted(everything(conn))


@pytest.fixture
def gathering(postgres_engine: PostgresEngine) -> Iterator[Gathering]:
    gathering = Gathering(postgres_engine)
    yield gathering
    gathering.may_go_on.set()
    gathering.writer.close()


def test_calls_about_what_is_being_served_become_one_list(
    gathering: Gathering, postgres_engine: PostgresEngine
) -> None:
    gathering.ask("a1")
    assert gathering.is_at_work.wait(SOON)
    gathering.ask("a2", "a3")
    # The other writer is not held up: what it serves is told while the first is still at work.
    told = threading.Event()
    gathering.writer.submit_hot(HotCall(gathering.operation, "b1", lambda _outcome: told.set(), None))
    assert told.wait(SOON)
    assert [set(texts) for texts in gathering.lists] == [{"a1"}, {"b1"}]
    gathering.may_go_on.set()
    assert gathering.all_told.wait(SOON)
    assert gathering.lists == [["a1"], ["b1"], ["a2", "a3"]]
    assert notes_in(postgres_engine) == ["a1", "a2", "a3", "b1"]


def test_what_was_set_aside_is_served_before_the_writer_ends(
    gathering: Gathering, postgres_engine: PostgresEngine
) -> None:
    gathering.ask("a1")
    assert gathering.is_at_work.wait(SOON)
    gathering.ask("a2")
    closing = threading.Thread(target=gathering.writer.close)
    closing.start()
    gathering.may_go_on.set()
    closing.join(SOON)
    assert notes_in(postgres_engine) == ["a1", "a2"]
