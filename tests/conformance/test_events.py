"""Every wire case of event polling, through the application and through the fast lane on a real socket.

Each way has a node of its own with the same clients in it, so that at every step the two answers must be the same to
the byte, but for the date and what is drawn at random: interaction ids and the ids of refusals.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.event_bank import INTERACTION_ID, ByApplication, BySocket, Way
from tests.conformance.event_cases import Case, Expected, Step, read_files
from tests.events.bank import token_of
from tests.server.serving import WireAnswer

FILES = read_files(Path(__file__).parent / "events")
CASES = [(name, case) for name, file in FILES.items() for case in file.case]
NAMES = [f"{name}: {case.name}" for name, case in CASES]

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
        way.begin()
    for step in case.step:
        for _ in range(step.times):
            take_step(ways, step)
    for way in ways:
        assert way.served.call(way.waiting_count) == 0


def take_step(ways: Ways, step: Step) -> None:
    if not step.is_request():
        for way in ways:
            way.happen(step)
        return
    socket = ways[1]
    hot_before = socket.node.lane.hot_requests
    answers = [asked(way, step) for way in ways]
    plain, fast = (way.same_in_both(answer) for way, answer in zip(ways, answers, strict=True))
    assert fast == plain
    assert answers[1].header(b"date") is not None
    assert (socket.node.lane.hot_requests > hot_before) == step.hot


def asked(way: Way, step: Step) -> WireAnswer:
    """The answer, which is as it was expected and had the effects that were."""
    before = None if step.expected.changes is None else way.inbox()

    def meanwhile() -> None:
        if step.meanwhile or step.times_out:
            way.served.until(lambda: way.waiting_count() == 1)
        if step.meanwhile:
            way.put_ready(step.meanwhile)
        elif step.times_out:
            way.served.call(way.time_out)

    answer = way.ask(step, meanwhile)
    check(way, step, answer)
    if before is not None:
        assert (way.inbox() != before) == step.expected.changes
    states = way.states()
    assert {jti: states.get(jti, "gone") for jti in step.expected.states} == step.expected.states
    for name, header in step.save.items():
        way.bound[name] = (answer.header(header.encode()) or b"").decode()
    return answer


def check(way: Way, step: Step, answer: WireAnswer) -> None:
    expected = step.expected
    assert answer.status == expected.status, answer.body
    assert answer.header(b"cache-control") == b"no-store"
    check_interaction_id(step, answer)
    for name, value in expected.headers.items():
        given = answer.header(name.encode())
        assert given is not None, name
        check_value(way.filled(value), given.decode("latin-1"))
    for name in expected.absent:
        assert answer.header(name.encode()) is None, name
    if expected.text is not None:
        check_value(expected.text, answer.body.decode())
    if answer.body:
        assert answer.header(b"content-type") == b"application/json"
        check_body(expected, msgspec.json.decode(answer.body))


def check_interaction_id(step: Step, answer: WireAnswer) -> None:
    """On every answer: what was sent, or a new one."""
    sent = [value for name, value in step.headers if name.lower() == INTERACTION_ID.decode()]
    given = answer.header(INTERACTION_ID)
    assert given is not None
    if len(sent) == 1 and expected_back(sent[0]):
        assert given.decode() == sent[0]
    else:
        check_value("~[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", given.decode())


def expected_back(sent: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.~:+/=-]{1,128}", sent) is not None


def check_body(expected: Expected, body: Any) -> None:
    if expected.json is not None:
        assert body == expected.json
    if expected.status == 200:
        assert list(body) == ["sets", "moreAvailable"]
        assert type(body["moreAvailable"]) is bool
    if expected.sets is not None:
        assert list(body["sets"].items()) == [(jti, token_of(jti)) for jti in expected.sets]
    if expected.more is not None:
        assert body["moreAvailable"] is expected.more
    if expected.code is not None:
        check_refusal(expected, body)


def check_refusal(expected: Expected, body: Any) -> None:
    assert list(body) == ["Code", "Id", "Message", "Errors"]
    assert body["Code"].startswith(f"{expected.status} ")
    assert body["Id"]
    [item] = body["Errors"]
    assert item["ErrorCode"] == f"UK.OBIE.{expected.code}", body
    assert item["Message"] == body["Message"] != ""
    assert item.get("Path") == expected.path, body


def check_value(expected: str, given: str) -> None:
    if expected.startswith("~"):
        assert re.fullmatch(expected[1:], given, re.DOTALL), f"{given!r} is not {expected[1:]}"
    else:
        assert given == expected


def test_names_are_unique() -> None:
    assert len(NAMES) == len(set(NAMES))
