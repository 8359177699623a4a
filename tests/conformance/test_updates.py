"""Every wire case of device updates, through the application and through the fast lane on a real socket.

Each way has a node of its own with the same devices in it, so that the two answers must be the same to the byte, but
for the date.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from restante.core.cursor import parse_cursor
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery import log
from restante.delivery.signals import Signal
from restante.updates import devices
from restante.updates.poll import WAIT_MAX_SECONDS
from tests.conformance.cases import Case, LoggedSignal, read_cases
from tests.conformance.tokens import Tokens
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user
from tests.server.serving import Served, WireAnswer

CASES = read_cases(Path(__file__).parent / "updates")
BURST = 3

_ADD = Query(
    "add",
    "INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref) "
    "VALUES (:device_id, :ms, :n, :type, :ts_ms, :ref)",
)
_HEAD = Query(
    "head",
    "INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms) "
    "VALUES (:device_id, :newest_ms, :newest_n, :trimmed_ms, :trimmed_n, :earliest_ms)",
)
_TAKE_AWAY = Query("take_away", "ALTER TABLE device_update_heads RENAME TO taken_away")
_BRING_BACK = Query("bring_back", "ALTER TABLE taken_away RENAME TO device_update_heads")


class Way:
    """One node, and a device of it for the case at hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.served = Served(folder, clock=self.clock, is_still=True, poll_burst=BURST, poll_rate_per_second=0.001)
        self.node = self.served.node
        database = self.node.database
        self._user_id, self._other_user_id = add_user(database), add_user(database, "bea@example.com")
        self._application = self.node.application(with_lifespan=False)

    def add_device(self) -> None:
        self.device_id = add_device(self.node.database, self._user_id)

    def prepare(self, case: Case) -> None:
        given, node = case.given, self.node
        self.clock.now_ms = given.clock_ms
        node.database.write_now(_fill_log, self.device_id, given.log, given.trimmed)
        tokens = Tokens(node, self._user_id, self._other_user_id, self.device_id)
        self._token = tokens.make(given.token) if given.token != "none" else ""
        # Known to the lane where it can be, so that what the lane passes on is passed on for its own sake.
        with contextlib.suppress(RestanteError):
            self.served.wait_for(node.tokens.verify(self._token))
        if given.device == "revoked":
            node.database.write_now(devices.revoke, self.device_id, self._user_id)
        self.served.call(node.poll.tick, given.clock_ms / 1000)
        for _ in range(given.polls_before):
            assert self.served.call(node.poll.admit, self.device_id) is None
        if given.is_log_out_of_reach:
            node.database.write_now(lambda conn: conn.run(_TAKE_AWAY))

    def tidy_up(self, case: Case) -> None:
        assert self.node.poll.bell.waiting_count == 0
        if case.given.is_log_out_of_reach:
            self.node.database.write_now(lambda conn: conn.run(_BRING_BACK))

    def headers(self, case: Case) -> list[tuple[str, str]]:
        headers = [(name, value.replace("{token}", self._token)) for name, value in case.request.headers]
        if case.given.token != "none" and "authorization" not in {name.lower() for name, _ in headers}:
            headers.insert(0, ("Authorization", f"Bearer {self._token}"))
        return headers

    async def by_application(self, case: Case) -> WireAnswer:
        transport = httpx.ASGITransport(self._application)
        url = f"http://restante.test{_target(case)}"
        request = httpx.Request(case.request.method, url, headers=self.headers(case), content=case.request.body)
        response = await transport.handle_async_request(request)
        # An ASGI server sends no body in answer to HEAD, whatever the application gives it.
        body = b"" if request.method == "HEAD" else await response.aread()
        return WireAnswer(response.status_code, response.headers.raw, body)

    def by_socket(self, case: Case) -> WireAnswer:
        lines = [f"{case.request.method} {_target(case)} HTTP/1.1", "Host: restante.test"]
        lines += [f"{name}: {value}" for name, value in self.headers(case)]
        if case.request.body:
            lines.append(f"Content-Length: {len(case.request.body)}")
        with self.served.connect() as wire:
            wire.send(("\r\n".join(lines) + "\r\n\r\n" + case.request.body).encode("latin-1"))
            self.publish_when_parked(case)
            return wire.answer(is_to_head=case.request.method == "HEAD")

    def publish_when_parked(self, case: Case) -> None:
        if case.given.published_while_waiting:
            self.served.until(lambda: self.node.poll.bell.waiting_count == 1)
            signals = [Signal(each.type, each.ts_ms, each.ref) for each in case.given.published_while_waiting]
            self.node.database.write_now(log.append, self.device_id, signals)


def _target(case: Case) -> str:
    return case.request.path if case.request.query is None else f"{case.request.path}?{case.request.query}"


def _fill_log(conn: Connection, device_id: int, entries: list[LoggedSignal | str], trimmed: str) -> None:
    """The device's log with these positions in it, which no sequence of publishing could make so exactly."""
    signals = [_logged(entry) for entry in entries]
    for signal in signals:
        ms, n = parse_cursor(signal.at)
        ref = msgspec.json.encode(signal.ref).decode()
        conn.run(_ADD, device_id=device_id, ms=ms, n=n, type=signal.type, ts_ms=signal.ts_ms, ref=ref)
    if signals:
        newest, gone = parse_cursor(signals[-1].at), parse_cursor(trimmed)
        conn.run(
            _HEAD,
            device_id=device_id,
            newest_ms=newest.ms,
            newest_n=newest.n,
            trimmed_ms=gone.ms,
            trimmed_n=gone.n,
            earliest_ms=parse_cursor(signals[0].at).ms,
        )


def _logged(entry: LoggedSignal | str) -> LoggedSignal:
    if isinstance(entry, LoggedSignal):
        return entry
    n = parse_cursor(entry).n
    return LoggedSignal(entry, "app.note", n, {"n": n})


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Way, Way]]:
    both = Way(tmp_path_factory.mktemp("application")), Way(tmp_path_factory.mktemp("socket"))
    yield both
    for way in both:
        way.served.close()


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_case(ways: tuple[Way, Way], case: Case) -> None:
    application, socket = ways
    for way in ways:
        way.add_device()
    for way in ways:
        way.prepare(case)
    plain = _ask_application(application, case)
    hot_before = socket.node.lane.hot_requests
    fast = socket.by_socket(case)
    is_hot = socket.node.lane.hot_requests > hot_before
    for way in ways:
        way.tidy_up(case)
    _check(case, plain)
    assert fast.without_date() == plain
    assert fast.header(b"date") is not None
    assert is_hot == case.hot


def _ask_application(way: Way, case: Case) -> WireAnswer:
    answer = asyncio.run_coroutine_threadsafe(way.by_application(case), way.served.loop)
    way.publish_when_parked(case)
    return answer.result(WAIT_MAX_SECONDS)


def _check(case: Case, answer: WireAnswer) -> None:
    expected = case.expected
    assert answer.status == expected.status, answer.body
    for name, value in expected.headers.items():
        given = answer.header(name.encode())
        assert given is not None, name
        _check_text(value, given.decode("latin-1"))
    for name in expected.absent:
        assert answer.header(name.encode()) is None, name
    if expected.body is not None:
        assert answer.body.decode() == expected.body
    if expected.json is not None:
        assert msgspec.json.decode(answer.body) == expected.json
    _check_error(case, answer)


def _check_error(case: Case, answer: WireAnswer) -> None:
    if case.expected.code is None and case.expected.what is None:
        return
    error: dict[str, Any] = msgspec.json.decode(answer.body)["error"]
    assert error["code"] == case.expected.code
    if case.expected.what is not None:
        _check_text(case.expected.what, error["what"])


def _check_text(expected: str, given: str) -> None:
    if expected.startswith("~"):
        assert re.fullmatch(expected[1:], given), f"{given!r} is not {expected[1:]}"
    else:
        assert given == expected


def test_names_are_unique() -> None:
    names = [name for name, _ in CASES]
    assert len(names) == len(set(names))
