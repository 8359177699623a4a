"""The conformance cases of device updates: the initial state of a device, one request, and the expected response.

Each case has a new device, whose log has exactly the positions that the case gives."""

import asyncio
import contextlib
from typing import Any, ClassVar, Literal

import msgspec

from restante.core.cursor import parse_cursor
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.redis.redis_log import RedisLog
from restante.updates.devices import devices
from tests.conformance.cases import Expected, SingleStepCase, body_of, check_response, check_value
from tests.conformance.runner import ProtocolFixture, Request
from tests.conformance.tokens import Tokens
from tests.conftest import ManualClock
from tests.defaults import append_signals
from tests.identity.people_and_devices import add_device, add_user
from tests.server.live_server import LiveServer, RawResponse

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
_BREAK_LOG = Query("break_log", "ALTER TABLE device_update_heads RENAME TO broken")
_REPAIR_LOG = Query("repair_log", "ALTER TABLE broken RENAME TO device_update_heads")


class NewSignal(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    ts_ms: int
    ref: dict[str, Any]


class LoggedSignal(NewSignal, forbid_unknown_fields=True, kw_only=True):
    at: str


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """The initial state: the device's log, as signals or as bare positions, and deviations from the default."""

    log: list[LoggedSignal | str] = []
    trimmed: str = "0-0"
    clock_ms: int = 1_736_990_000_000
    device: Literal["active", "revoked"] = "active"
    token: str = "good"
    polls_before: int = 0
    is_log_unavailable: bool = False
    published_while_waiting: list[NewSignal] = []


class CaseRequest(msgspec.Struct, forbid_unknown_fields=True):
    method: str = "GET"
    path: str = "/apiv1/devices/self/updates"
    query: str | None = None
    # `{token}` stands for the token. Without an Authorization header here, the default one is sent.
    headers: list[tuple[str, str]] = []
    body: str = ""


class UpdatesExpected(Expected, forbid_unknown_fields=True, kw_only=True):
    """`code` and `what` are the fields of an error."""

    code: int | None = None
    what: str | None = None


class UpdatesCase(SingleStepCase, forbid_unknown_fields=True, kw_only=True):
    expected: UpdatesExpected
    given: Given = msgspec.field(default_factory=Given)
    request: CaseRequest = msgspec.field(default_factory=CaseRequest)
    fast_lane: bool = False

    def uses_fast_lane(self) -> bool:
        return self.fast_lane


class UpdatesFixture(ProtocolFixture[UpdatesCase, UpdatesCase]):
    default_settings: ClassVar[dict[str, Any]] = {"poll_burst": 3, "poll_rate_per_second": "0.001"}

    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        super().__init__(server, clock)
        self._user_id, self._other_user_id = (
            add_user(self.node.database, f"{name}@example.com") for name in ("ada", "bea")
        )

    def set_up(self, case: UpdatesCase) -> None:
        given, node = case.given, self.node
        self._device_id = add_device(node.database, self._user_id)
        self.clock.now_ms = given.clock_ms
        self.write(_fill_log, self._device_id, given.log, given.trimmed)
        tokens = Tokens(node, self._user_id, self._other_user_id, self._device_id)
        self._token = tokens.create(given.token) if given.token != "none" else ""
        # Cache a valid token, so that the fast lane does not pass the request on only because of an unknown token.
        with contextlib.suppress(RestanteError):
            self.server.wait_for(node.identity.device_tokens.verify(self._token))
        if given.device == "revoked":
            self.write(devices.revoke, self._device_id, self._user_id)
        self.server.call(node.updates.poll.tick, given.clock_ms / 1000)
        for _ in range(given.polls_before):
            assert self.server.call(node.updates.poll.admit, self._device_id) is None
        if node.redis.log is not None:
            self.server.wait_for(self._copy_log(node.redis.log))
        if given.is_log_unavailable:
            self.write(lambda conn: conn.run(_BREAK_LOG))

    async def _copy_log(self, copied: RedisLog) -> None:
        """Copy the log to Redis, as after a poll of a device that was behind."""
        is_read = asyncio.Event()
        self.node.redis.reader.read(self._device_id, None, 1, lambda _: is_read.set())
        await is_read.wait()
        await copied.wait_until_idle()

    def tear_down(self, case: UpdatesCase) -> None:
        if case.given.is_log_unavailable:
            self.write(lambda conn: conn.run(_REPAIR_LOG))

    def request(self, step: UpdatesCase) -> Request:
        request = step.request
        headers = [(name, value.replace("{token}", self._token)) for name, value in request.headers]
        if step.given.token != "none" and "authorization" not in {name.lower() for name, _ in headers}:
            headers.insert(0, ("Authorization", f"Bearer {self._token}"))
        target = request.path if request.query is None else f"{request.path}?{request.query}"
        return Request(request.method, target, headers, request.body.encode("latin-1"))

    def act_while_waiting(self, step: UpdatesCase) -> None:
        if step.given.published_while_waiting:
            self.server.wait_until(lambda: self.parked_count() == 1)
            signals = [Signal(each.type, each.ts_ms, each.ref) for each in step.given.published_while_waiting]
            self.write(append_signals, self._device_id, signals)

    def parked_count(self) -> int:
        return self.node.updates.poll.parked_count

    def normalized(self, response: RawResponse) -> RawResponse:
        return response.without_date()

    def check(self, step: UpdatesCase, response: RawResponse, before: Any) -> None:
        expected = step.expected
        check_response(expected, response, self.names)
        if expected.code is not None:
            assert body_of(response)["error"]["code"] == expected.code
        if expected.what is not None:
            check_value(expected.what, body_of(response)["error"]["what"], "what")


def _fill_log(conn: Connection, device_id: int, entries: list[LoggedSignal | str], trimmed: str) -> None:
    """Insert log entries with exact positions, which publishing could not produce."""
    signals = [_as_signal(entry) for entry in entries]
    for signal in signals:
        ms, n = parse_cursor(signal.at)
        ref = msgspec.json.encode(signal.ref).decode()
        conn.run(_ADD, device_id=device_id, ms=ms, n=n, type=signal.type, ts_ms=signal.ts_ms, ref=ref)
    if signals:
        newest, trimmed_at = parse_cursor(signals[-1].at), parse_cursor(trimmed)
        conn.run(
            _HEAD,
            device_id=device_id,
            newest_ms=newest.ms,
            newest_n=newest.n,
            trimmed_ms=trimmed_at.ms,
            trimmed_n=trimmed_at.n,
            earliest_ms=parse_cursor(signals[0].at).ms,
        )


def _as_signal(entry: LoggedSignal | str) -> LoggedSignal:
    if isinstance(entry, LoggedSignal):
        return entry
    n = parse_cursor(entry).n
    return LoggedSignal("app.note", n, {"n": n}, at=entry)
