"""Every wire case of edge commands, through the application and through the fast lane on a real socket.

Each way has a node of its own with the same site in it, so that at every step the two answers must be the same to the
byte, but for the date and what is drawn at random: ids of commands, nonces, and with them signatures.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.command_cases import Case, Expected, Step, read_files
from tests.conformance.edge_site import ByApplication, BySocket, Way, signature_by_formula
from tests.server.inhabited import dump
from tests.server.serving import WireAnswer

FILES = read_files(Path(__file__).parent / "commands")
CASES = [(name, case) for name, file in FILES.items() for case in file.case]
NAMES = [f"{name}: {case.name}" for name, case in CASES]

# In the specification's order of its fields.
ELEVEN = (
    *("command_id", "site_id", "zone_id", "miner_id", "command_type", "params", "priority", "expires_at"),
    *("dedupe_key", "signed_at", "nonce"),
)
MISSING = "(nothing)"
# Beside the trail, the ids that will be given next: one may be passed over without anything having changed.
NOT_COMPARED = {"command_audit", "audit_checkpoints", "sqlite_sequence"}

Ways = tuple[ByApplication, BySocket]


class EveryWay:
    """Two ways for each file's settings, opened when they are first wanted."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._opened: dict[str, Ways] = {}

    def under(self, file: str) -> Ways:
        if file not in self._opened:
            settings = FILES[file].settings
            application = ByApplication(self._folders.mktemp("application"), settings)
            self._opened[file] = (application, BySocket(self._folders.mktemp("socket"), settings))
        return self._opened[file]

    def close(self) -> None:
        for ways in self._opened.values():
            for way in ways:
                way.served.close()


@pytest.fixture(scope="module")
def every_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryWay]:
    every = EveryWay(tmp_path_factory)
    yield every
    every.close()


@pytest.mark.parametrize(("file", "case"), CASES, ids=NAMES)
def test_case(every_way: EveryWay, file: str, case: Case) -> None:
    ways = every_way.under(file)
    for way in ways:
        way.begin(case.at_site_42)
    for step in case.step:
        for _ in range(step.times):
            take_step(ways, step)
    for way in ways:
        assert way.served.call(way.waiting_count) == 0


def take_step(ways: Ways, step: Step) -> None:
    if not step.is_request():
        for way in ways:
            happen(way, step)
        return
    socket = ways[1]
    hot_before = socket.node.lane.hot_requests
    answers = [asked(way, step) for way in ways]
    plain, fast = (way.same_in_both(answer) for way, answer in zip(ways, answers, strict=True))
    assert fast == plain
    assert answers[1].header(b"date") is not None
    assert (socket.node.lane.hot_requests > hot_before) == step.is_hot()


def happen(way: Way, step: Step) -> None:
    if step.create is not None:
        way.create(step.create)
    elif step.advance is not None:
        way.advance(step.advance)
    elif step.act is not None:
        getattr(way, step.act)()


def asked(way: Way, step: Step) -> WireAnswer:
    """The answer, which is as it was expected and had the effects that were."""
    expected = step.expected
    events, before = len(way.events()), None if expected.changes is None else things(way)

    def meanwhile() -> None:
        if step.meanwhile:
            way.served.until(lambda: way.waiting_count() == 1)
            way.create(step.meanwhile)

    answer = way.ask(step, meanwhile)
    check(way, expected, answer)
    if before is not None:
        assert (things(way) != before) == expected.changes
    if expected.audit is not None:
        assert way.events()[events:] == expected.audit
    for name, where in step.save.items():
        way.bound[name] = found_at(body_of(answer), where)
    return answer


def things(way: Way) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows for name, rows in way.node.database.read_now(dump).items() if name not in NOT_COMPARED}


def body_of(answer: WireAnswer) -> Any:
    return msgspec.json.decode(answer.body) if answer.body else None


def check(way: Way, expected: Expected, answer: WireAnswer) -> None:
    assert answer.status == expected.status, answer.body
    for name, value in expected.headers.items():
        given = answer.header(name.encode())
        assert given is not None, name
        check_value(way.filled(value), given.decode("latin-1"), name)
    for name in expected.absent:
        assert answer.header(name.encode()) is None, name
    if expected.text is not None:
        check_value(way.filled(expected.text), answer.body.decode(), "the body")
    if is_json(answer):
        check_body(way, expected, body_of(answer))


def is_json(answer: WireAnswer) -> bool:
    return answer.header(b"content-type") == b"application/json" and answer.body != b""


def check_body(way: Way, expected: Expected, body: Any) -> None:
    if expected.json is not None:
        assert body == way.filled(expected.json)
    for where, value in expected.has.items():
        check_value(way.filled(value), found_at(body, where), where)
    assert [where for where in expected.null if found_at(body, where) is not None] == []
    assert [where for where in expected.lacks if found_at(body, where) != MISSING] == []
    if expected.commands is not None:
        assert [command["command_id"] for command in body["commands"]] == way.filled(expected.commands)
    if expected.error is not None:
        assert body["error"] == expected.error, body
        assert isinstance(body["message"], str)
        assert body["message"]
    if expected.field is not None:
        assert body["field"] == expected.field, body
    if expected.signed:
        for command in body["commands"]:
            eleven = {field: command[field] for field in ELEVEN}
            assert command["signature"] == signature_by_formula(eleven, way.secret())


def check_value(expected: Any, given: Any, where: str) -> None:
    if isinstance(expected, str) and expected.startswith("~"):
        assert re.fullmatch(expected[1:], str(given), re.DOTALL), f"{where}: {given!r} is not {expected[1:]}"
    else:
        assert given == expected, f"{where}: {given!r}"
        assert type(given) is type(expected), where


def found_at(body: Any, where: str) -> Any:
    """What stands at `commands.0.nonce`, or that nothing does; `#` is how many there are."""
    for part in where.split("."):
        if part == "#":
            body = len(body)
        elif isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else MISSING
        elif isinstance(body, dict):
            body = body.get(part, MISSING)
        else:
            return MISSING
    return body


def test_names_are_unique() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_the_signed_fields_are_the_specifications_eleven() -> None:
    assert len(ELEVEN) == len(set(ELEVEN)) == 11
