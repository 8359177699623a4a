"""Every wire case of every protocol, through the application and through the fast lane, on every ground."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import command_cases, event_cases, signals_cases, token_cases, update_cases
from tests.conformance.cases import read_files
from tests.conformance.command_answers import ELEVEN
from tests.conformance.edge_site import EdgeSite
from tests.conformance.event_bank import EventBank
from tests.conformance.fleet import Fleet
from tests.conformance.grounds import Ground
from tests.conformance.runner import Book, Runner, Story
from tests.conformance.signals_desk import SignalsDesk
from tests.conformance.token_desk import TokenDesk

FOLDER = Path(__file__).parent
BOOKS = {
    "updates": Book(Fleet, read_files(FOLDER / "updates", update_cases.CaseFile)),
    "commands": Book(EdgeSite, read_files(FOLDER / "commands", command_cases.CaseFile)),
    "token": Book(TokenDesk, read_files(FOLDER / "token", token_cases.CaseFile)),
    "events": Book(EventBank, read_files(FOLDER / "events", event_cases.CaseFile)),
    "signals": Book(SignalsDesk, read_files(FOLDER / "signals", signals_cases.CaseFile)),
}
# Redis only ever stands before the devices' log.
RUNS = [(book, ground) for book in BOOKS for ground in ("sqlite", "postgres")] + [("updates", "redis")]
CASES = [
    pytest.param(ground, BOOKS[book], file, case, id=f"{ground}: {book}/{file}: {case.name}")
    for book, ground in RUNS
    for file, cases in BOOKS[book].files.items()
    for case in cases.case
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    runner = Runner(lambda: tmp_path_factory.mktemp("node"))
    yield runner
    runner.close()


@pytest.mark.parametrize(("ground_name", "book", "file", "case"), CASES)
def test_case(runner: Runner, ground: Ground, book: Book, file: str, case: Story) -> None:
    runner.run(ground, book, file, case)


@pytest.mark.parametrize("ground_name", ["redis"])
def test_with_redis_a_poll_that_is_behind_is_answered_from_it(runner: Runner, ground: Ground) -> None:
    """Else the cases would say of Redis only that it is not in the way."""
    book = BOOKS["updates"]
    behind = next(case for case in book.files["2_cursors"].case if case.name == "header, bare")
    runner.close()
    runner.run(ground, book, "2_cursors", behind)
    logs = [world.node.redis.log for world in runner.worlds]
    assert [log is not None and log.totals.hits for log in logs] == [1, 1]


def test_the_signed_fields_are_the_specifications_eleven() -> None:
    assert len(ELEVEN) == len(set(ELEVEN)) == 11
