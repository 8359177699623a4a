"""Runs the conformance cases of all protocols through the application, and through the fast lane on a real socket.

    case ─▶ node 1, application ─▶ response ─┐
         ─▶ node 2, real socket ─▶ response ─┴─▶ equal byte by byte, except for the date and random values

On the socket a case uses one of the ways of HTTP to end a connection, another one on each backend: the client closes
it, or the request says `Connection: close`, or it is of HTTP/1.0.

Both nodes are set up in the same way. The cases run on several backends: the embedded database, PostgreSQL, and
PostgreSQL with Redis in front of its log. Each case file has its own settings, so the nodes are started again for each
file. The cases of a file share the nodes, and each case sets up its own data.
"""

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import httpx

from restante.server.config.settings import DECLARATIONS
from tests.conformance.backends import Backend
from tests.conformance.cases import Case, CaseFile, Step
from tests.conftest import ManualClock
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer, RawResponse

C = TypeVar("C", bound=Case)
S = TypeVar("S", bound=Step)

_BACKENDS = ("sqlite", "postgres", "redis")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""


class ProtocolFixture(ABC, Generic[C, S]):
    """A running node and the data of the cases of one protocol."""

    default_settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        self.server = server
        self.node = server.node
        self.clock = clock
        # Values for `{name}` in the steps of the current case.
        self.names: dict[str, Any] = {}

    @abstractmethod
    def set_up(self, case: C) -> None:
        """Create the data of the case."""

    def perform(self, step: S) -> None:
        """Perform a step that is not a request."""
        raise AssertionError("every step of these cases is a request")

    @abstractmethod
    def request(self, step: S) -> Request: ...

    def act_while_waiting(self, step: S) -> None:
        """Act while the request waits for its response."""
        return

    def snapshot(self, step: S) -> Any:
        """The state before the request that `check` compares with."""
        return

    @abstractmethod
    def check(self, step: S, response: RawResponse, before: Any) -> None:
        """Check the response and its effects, and save the values that later steps need."""

    @abstractmethod
    def normalized(self, response: RawResponse) -> RawResponse:
        """The response without its date, and with random values replaced."""

    @abstractmethod
    def parked_count(self) -> int: ...

    def tear_down(self, case: C) -> None:
        """Undo what would affect other cases."""
        return

    def write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self.node.database.write_now(work, *args)


Action = Callable[[], None]
Client = Callable[[Request, Action], RawResponse]


class ApplicationClient:
    """Sends requests to the ASGI application of a node."""

    def __init__(self, server: LiveServer) -> None:
        self._loop = server.loop
        self._transport = httpx.ASGITransport(server.node.application(with_lifespan=False))

    def __call__(self, request: Request, act_while_waiting: Action) -> RawResponse:
        response = asyncio.run_coroutine_threadsafe(self._send(request), self._loop)
        act_while_waiting()
        return response.result(TIMEOUT_SECONDS)

    async def _send(self, request: Request) -> RawResponse:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers]
        url = f"http://restante.test{request.target}"
        sent = httpx.Request(request.method, url, headers=headers, content=request.body)
        response = await self._transport.handle_async_request(sent)
        # An ASGI server sends no body in response to HEAD, even if the application has one.
        body = b"" if request.method == "HEAD" else await response.aread()
        return RawResponse(response.status_code, response.headers.raw, body)


class Ending(Enum):
    """How the end of a connection is agreed."""

    by_client = 0
    by_header = 1
    by_version = 2


class SocketClient:
    """Sends requests to a node over a real socket."""

    def __init__(self, server: LiveServer) -> None:
        self._served = server
        self.ending = Ending.by_client

    def __call__(self, request: Request, act_while_waiting: Action) -> RawResponse:
        version = "HTTP/1.0" if self.ending is Ending.by_version else "HTTP/1.1"
        lines = [f"{request.method} {request.target} {version}", "Host: restante.test"]
        lines += ["Connection: close"] if self.ending is Ending.by_header else []
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body or request.method == "POST":
            lines.append(f"Content-Length: {len(request.body)}")
        with self._served.connect() as wire:
            wire.send("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
            act_while_waiting()
            response = wire.response(is_head=request.method == "HEAD")
            if self.ending is Ending.by_client:
                return response
            assert wire.is_closed_by_server()
            assert response.headers[-1] == (b"connection", b"close")
            return response._replace(headers=response.headers[:-1])


@dataclass(frozen=True, slots=True)
class Suite:
    """The case files of a protocol, and its fixture."""

    fixture_type: type[ProtocolFixture[Any, Any]]
    files: Mapping[str, CaseFile[Any]]


class Runner:
    """Keeps the two nodes of one backend and case file until a case needs others: cases come file by file."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._opened: object = None
        self.fixtures: list[ProtocolFixture[Any, Any]] = []
        self._clients: list[Client] = []

    def run(self, backend: Backend, suite: Suite, file: str, case: Case) -> None:
        if self._opened != (backend.name, suite.fixture_type, file):
            self.close()
            self._open(backend, suite, file)
        self._socket_client.ending = _ending_of(backend, case)
        for fixture in self.fixtures:
            fixture.names = {}
            fixture.set_up(case)
        try:
            for step in case.steps():
                for _ in range(step.times):
                    self._run_step(step)
        finally:
            for fixture in self.fixtures:
                fixture.tear_down(case)
        for fixture in self.fixtures:
            assert fixture.server.call(fixture.parked_count) == 0

    def close(self) -> None:
        self._opened = None
        while self.fixtures:
            self.fixtures.pop().server.close()

    def _open(self, backend: Backend, suite: Suite, file: str) -> None:
        texts = suite.files[file].settings or suite.fixture_type.default_settings
        settings = {name: DECLARATIONS[name].type.parse(value) for name, value in texts.items()}
        for side in range(2):
            clock = ManualClock()
            folder = self._new_folder()
            empty = backend.prepare(side, folder, clock)
            server = LiveServer(
                folder, clock=clock, has_services=False, engine=empty.engine, **empty.settings, **settings
            )
            self.fixtures.append(suite.fixture_type(server, clock))
        self._socket_client = SocketClient(self.fixtures[1].server)
        self._clients = [ApplicationClient(self.fixtures[0].server), self._socket_client]
        self._opened = (backend.name, suite.fixture_type, file)

    def _run_step(self, step: Step) -> None:
        if not step.is_request():
            for fixture in self.fixtures:
                fixture.perform(step)
            return
        lane = self.fixtures[1].node.lane
        before = lane.fast_requests
        pairs = list(zip(self.fixtures, self._clients, strict=True))
        responses = [self._send(fixture, client, step) for fixture, client in pairs]
        plain, fast = (fixture.normalized(each) for fixture, each in zip(self.fixtures, responses, strict=True))
        assert fast == plain, f"{fast} is not {plain}"
        assert responses[1].header(b"date") is not None
        assert (lane.fast_requests > before) == step.uses_fast_lane()

    def _send(self, fixture: ProtocolFixture[Any, Any], client: Client, step: Step) -> RawResponse:
        before = fixture.snapshot(step)
        response = client(fixture.request(step), lambda: fixture.act_while_waiting(step))
        fixture.check(step, response, before)
        return response


def _ending_of(backend: Backend, case: Case) -> Ending:
    return Ending((zlib.crc32(case.name.encode()) + _BACKENDS.index(backend.name)) % len(Ending))
