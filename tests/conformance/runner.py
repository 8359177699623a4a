"""Runs the cases of any protocol: through the application, and through the fast lane on a real socket.

Each way has a node of its own with the same world in it, so that at every step the two answers must be the same to the
byte, but for the date and what is drawn at random. And so on every ground that a node can stand on: the embedded
database, PostgreSQL, and PostgreSQL with Redis before its log.

A ground is made as new for each file of cases, as each has its own settings; the cases of a file share their nodes, and
each furnishes for itself what it is about.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import httpx

from restante.server.settings import DECLARED
from tests.conformance.cases import CaseFile
from tests.conformance.grounds import Ground
from tests.conftest import ManualClock
from tests.server.serving import PATIENCE_SECONDS, Served, WireAnswer


class Request(NamedTuple):
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""


class Step(Protocol):
    """One thing that happens in a case, most often a request."""

    @property
    def times(self) -> int: ...
    def is_request(self) -> bool: ...
    def is_hot(self) -> bool:
        """Whether the fast lane must have answered it; else it must not have."""


class Story(Protocol):
    """A case: what happens in it, in order."""

    @property
    def step(self) -> Sequence[Any]: ...


C = TypeVar("C", bound=Story)
S = TypeVar("S", bound=Step)


class World(ABC, Generic[C, S]):
    """A served node and all that the cases of one protocol are about."""

    def __init__(self, served: Served, clock: ManualClock) -> None:
        self.served = served
        self.node = served.node
        self.clock = clock

    @abstractmethod
    def begin(self, case: C) -> None:
        """Have everything as it is when the case begins."""

    def happen(self, step: S) -> None:
        """Let that happen which is not a request."""
        raise AssertionError("every step of these cases is a request")

    @abstractmethod
    def request(self, step: S) -> Request: ...

    def meanwhile(self, step: S) -> None:
        """Do what happens while the request waits for its answer: mostly nothing."""
        return

    def look(self, step: S) -> Any:
        """What must be known of before, to see what came of the request."""
        return

    @abstractmethod
    def check(self, step: S, answer: WireAnswer, before: Any) -> None:
        """The answer is as it was expected, and had the effects that were; what is to be kept of it is."""

    @abstractmethod
    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        """The answer without its date, and with what was drawn at random named."""

    @abstractmethod
    def waiting_count(self) -> int: ...

    def end(self, case: C) -> None:
        """Put right what would be in the way of other cases: mostly nothing is."""
        return

    def write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self.node.database.write_now(work, *args)


Meanwhile = Callable[[], None]
Way = Callable[[Request, Meanwhile], WireAnswer]


class ByApplication:
    def __init__(self, served: Served) -> None:
        self._loop = served.loop
        self._transport = httpx.ASGITransport(served.node.application(with_lifespan=False))

    def __call__(self, request: Request, meanwhile: Meanwhile) -> WireAnswer:
        answer = asyncio.run_coroutine_threadsafe(self._ask(request), self._loop)
        meanwhile()
        return answer.result(PATIENCE_SECONDS)

    async def _ask(self, request: Request) -> WireAnswer:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in request.headers]
        url = f"http://restante.test{request.target}"
        sent = httpx.Request(request.method, url, headers=headers, content=request.body)
        response = await self._transport.handle_async_request(sent)
        # An ASGI server sends no body in answer to HEAD, whatever the application gives it.
        body = b"" if request.method == "HEAD" else await response.aread()
        return WireAnswer(response.status_code, response.headers.raw, body)


class BySocket:
    def __init__(self, served: Served) -> None:
        self._served = served

    def __call__(self, request: Request, meanwhile: Meanwhile) -> WireAnswer:
        lines = [f"{request.method} {request.target} HTTP/1.1", "Host: restante.test"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body or request.method == "POST":
            lines.append(f"Content-Length: {len(request.body)}")
        with self._served.connect() as wire:
            wire.send("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
            meanwhile()
            return wire.answer(is_to_head=request.method == "HEAD")


class Book(NamedTuple):
    """The cases of a protocol, file by file, and the world they are about."""

    world: Callable[[Served, ManualClock], World[Any, Any]]
    files: Mapping[str, CaseFile]


class Runner:
    """Keeps the nodes of one ground and file until another is wanted: cases come file by file."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._opened: object = None
        self.worlds: list[World[Any, Any]] = []
        self._ways: list[Way] = []

    def run(self, ground: Ground, book: Book, file: str, case: Story) -> None:
        if self._opened != (ground.name, book.world, file):
            self.close()
            self._open(ground, book, file)
        for world in self.worlds:
            world.begin(case)
        try:
            for step in case.step:
                for _ in range(step.times):
                    self._take(step)
        finally:
            for world in self.worlds:
                world.end(case)
        for world in self.worlds:
            assert world.served.call(world.waiting_count) == 0

    def close(self) -> None:
        self._opened = None
        while self.worlds:
            self.worlds.pop().served.close()

    def _open(self, ground: Ground, book: Book, file: str) -> None:
        settings = {name: DECLARED[name].kind.read(value) for name, value in book.files[file].settings.items()}
        for side in range(2):
            clock = ManualClock()
            folder = self._new_folder()
            lodging = ground.lodge(side, folder, clock)
            served = Served(folder, clock=clock, is_still=True, engine=lodging.engine, **lodging.settings, **settings)
            self.worlds.append(book.world(served, clock))
        self._ways = [ByApplication(self.worlds[0].served), BySocket(self.worlds[1].served)]
        self._opened = (ground.name, book.world, file)

    def _take(self, step: Step) -> None:
        if not step.is_request():
            for world in self.worlds:
                world.happen(step)
            return
        lane = self.worlds[1].node.lane
        hot_before = lane.hot_requests
        answers = [self._asked(world, way, step) for world, way in zip(self.worlds, self._ways, strict=True)]
        plain, fast = (world.same_in_both(each) for world, each in zip(self.worlds, answers, strict=True))
        assert fast == plain, f"{fast} is not {plain}"
        assert answers[1].header(b"date") is not None
        assert (lane.hot_requests > hot_before) == step.is_hot()

    def _asked(self, world: World[Any, Any], way: Way, step: Step) -> WireAnswer:
        before = world.look(step)
        answer = way(world.request(step), lambda: world.meanwhile(step))
        world.check(step, answer, before)
        return answer
