"""Every conformance case of every protocol, through the application and the fast lane, on every backend."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import (
    commands_fixture,
    events_fixture,
    shared_signals_fixture,
    token_fixture,
    updates_fixture,
)
from tests.conformance.backends import Backend
from tests.conformance.cases import Case, CaseFile, read_files
from tests.conformance.commands_fixture import SIGNED_FIELDS
from tests.conformance.runner import Runner, Suite

FOLDER = Path(__file__).parent
SUITES = {
    "updates": Suite(
        updates_fixture.UpdatesFixture, read_files(FOLDER / "updates", CaseFile[updates_fixture.UpdatesCase])
    ),
    "commands": Suite(
        commands_fixture.CommandsFixture, read_files(FOLDER / "commands", CaseFile[commands_fixture.CommandsCase])
    ),
    "token": Suite(token_fixture.TokenFixture, read_files(FOLDER / "token", CaseFile[token_fixture.TokenCase])),
    "events": Suite(events_fixture.EventsFixture, read_files(FOLDER / "events", CaseFile[events_fixture.EventsCase])),
    "shared_signals": Suite(
        shared_signals_fixture.SharedSignalsFixture,
        read_files(FOLDER / "shared_signals", CaseFile[shared_signals_fixture.SharedSignalsCase]),
    ),
}
# Redis is used only in front of the log of devices.
RUNS = [(suite, backend) for suite in SUITES for backend in ("sqlite", "postgres")] + [("updates", "redis")]
CASES = [
    pytest.param(backend, SUITES[suite], file, case, id=f"{backend}: {suite}/{file}: {case.name}")
    for suite, backend in RUNS
    for file, cases in SUITES[suite].files.items()
    for case in cases.case
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    runner = Runner(lambda: tmp_path_factory.mktemp("node"))
    yield runner
    runner.close()


@pytest.mark.parametrize(("backend_name", "suite", "file", "case"), CASES)
def test_case(runner: Runner, backend: Backend, suite: Suite, file: str, case: Case) -> None:
    runner.run(backend, suite, file, case)


@pytest.mark.parametrize("backend_name", ["redis"])
def test_poll_behind_the_log_is_answered_from_redis(runner: Runner, backend: Backend) -> None:
    """Proves that the cases with Redis read from it."""
    suite = SUITES["updates"]
    behind = next(case for case in suite.files["2_cursors"].case if case.name == "header, bare")
    runner.close()
    runner.run(backend, suite, "2_cursors", behind)
    logs = [fixture.node.redis.log for fixture in runner.fixtures]
    assert [log is not None and log.counters.hits for log in logs] == [1, 1]


def test_specification_signs_eleven_fields() -> None:
    assert len(SIGNED_FIELDS) == len(set(SIGNED_FIELDS)) == 11
