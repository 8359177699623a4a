"""The world of the cases of device updates: for each case a new device, and its log as the case has it."""

import asyncio
import contextlib
from typing import Any

import msgspec

from restante.core.cursor import parse_cursor
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery import log
from restante.delivery.redis_log import RedisLog
from restante.delivery.signals import Signal
from restante.updates import devices
from tests.conformance.cases import body_of, check_headers, check_value
from tests.conformance.runner import Request, World
from tests.conformance.tokens import Tokens
from tests.conformance.update_cases import Case, LoggedSignal
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user
from tests.server.serving import Served, WireAnswer

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


class Fleet(World[Case, Case]):
    def __init__(self, served: Served, clock: ManualClock) -> None:
        super().__init__(served, clock)
        self._user_id, self._other_user_id = (
            add_user(self.node.database, f"{name}@example.com") for name in ("ada", "bea")
        )

    def begin(self, case: Case) -> None:
        given, node = case.given, self.node
        self._device_id = add_device(node.database, self._user_id)
        self.clock.now_ms = given.clock_ms
        self.write(_fill_log, self._device_id, given.log, given.trimmed)
        tokens = Tokens(node, self._user_id, self._other_user_id, self._device_id)
        self._token = tokens.make(given.token) if given.token != "none" else ""
        # Known to the lane where it can be, so that what the lane passes on is passed on for its own sake.
        with contextlib.suppress(RestanteError):
            self.served.wait_for(node.tokens.verify(self._token))
        if given.device == "revoked":
            self.write(devices.revoke, self._device_id, self._user_id)
        self.served.call(node.poll.tick, given.clock_ms / 1000)
        for _ in range(given.polls_before):
            assert self.served.call(node.poll.admit, self._device_id) is None
        if node.redis.log is not None:
            self.served.wait_for(self._copy_log(node.redis.log))
        if given.is_log_out_of_reach:
            self.write(lambda conn: conn.run(_TAKE_AWAY))

    async def _copy_log(self, copied: RedisLog) -> None:
        """Have the log in Redis, as it is there once somebody was behind."""
        is_read = asyncio.Event()
        self.node.redis.reader.read(self._device_id, None, 1, lambda _: is_read.set())
        await is_read.wait()
        await copied.settled()

    def end(self, case: Case) -> None:
        if case.given.is_log_out_of_reach:
            self.write(lambda conn: conn.run(_BRING_BACK))

    def request(self, step: Case) -> Request:
        asked = step.request
        headers = [(name, value.replace("{token}", self._token)) for name, value in asked.headers]
        if step.given.token != "none" and "authorization" not in {name.lower() for name, _ in headers}:
            headers.insert(0, ("Authorization", f"Bearer {self._token}"))
        target = asked.path if asked.query is None else f"{asked.path}?{asked.query}"
        return Request(asked.method, target, headers, asked.body.encode("latin-1"))

    def meanwhile(self, step: Case) -> None:
        if step.given.published_while_waiting:
            self.served.until(lambda: self.waiting_count() == 1)
            signals = [Signal(each.type, each.ts_ms, each.ref) for each in step.given.published_while_waiting]
            self.write(log.append, self._device_id, signals)

    def waiting_count(self) -> int:
        return self.node.poll.bell.waiting_count

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        return answer.without_date()

    def check(self, step: Case, answer: WireAnswer, before: Any) -> None:
        expected = step.expected
        assert answer.status == expected.status, answer.body
        check_headers(answer, expected.headers, expected.absent)
        if expected.body is not None:
            assert answer.body.decode() == expected.body
        if expected.json is not None:
            assert body_of(answer) == expected.json
        if expected.code is not None:
            assert body_of(answer)["error"]["code"] == expected.code
        if expected.what is not None:
            check_value(expected.what, body_of(answer)["error"]["what"], "what")


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
