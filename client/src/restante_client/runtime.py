"""What differs between asyncio and blocking programs: sending, sleeping, calling the user's functions.

Every client is written once, as coroutines over a `Runtime`. With `AsyncRuntime` they run in the caller's event loop.
With `BlockingRuntime` no await ever suspends, so `run_blocking` finishes a coroutine in one step, without an event loop
and without a thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, TypeVar

import httpx

from restante_client.errors import Unreachable

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")

RESPONSE_BYTES_MAX = 16 * 1024 * 1024


def steady_seconds() -> float:
    """A clock that never jumps and goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True)
class Response:
    status: int
    headers: httpx.Headers
    body: bytes


# Options of httpx that would have no effect here, and what to do instead.
_REFUSED_OPTIONS = {
    "base_url": "give the server's address as url",
    "timeout": "use timeout_seconds",
    "params": "a client sends only the parameters of the protocol",
    "follow_redirects": "a client follows no redirect",
}


class ExtraHeaders:
    """The headers and cookies that the user of a client adds to every request."""

    def __init__(self, http_options: dict[str, Any]) -> None:
        """Takes them out of the options of httpx, which would not add them to finished requests."""
        for name, instead in _REFUSED_OPTIONS.items():
            if name in http_options:
                raise ValueError(f"http: {name}: {instead}")
        self._headers = httpx.Headers(http_options.pop("headers", None))
        self._cookies = httpx.Cookies(http_options.pop("cookies", None))

    def add_to(self, request: httpx.Request) -> None:
        """They replace headers of the same name."""
        request.headers.update(self._headers)
        self._cookies.set_cookie_header(request)


class Runtime(ABC):
    """How a client reaches servers, the clock and randomness."""

    @abstractmethod
    async def send(self, request: httpx.Request, timeout_seconds: float) -> Response:
        """Send the request and read the whole response, within the time."""

    @abstractmethod
    def stream(self, request: httpx.Request, timeout_seconds: float) -> AsyncGenerator[bytes | Response, None]:
        """Send the request and yield the parts of its body; for a status other than 200, the response alone.

        The time is that for each part.
        """

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait. `stop` ends the wait early."""

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the user, and wait for its result if it is a coroutine function."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def stop(self) -> None:
        """End the current wait and every later one at once."""


class AsyncRuntime(Runtime):
    def __init__(self, **http_options: Any) -> None:
        self._extra_headers = ExtraHeaders(http_options)
        self._http = httpx.AsyncClient(follow_redirects=False, **http_options)
        self._is_stopped = False
        self._sleeping: set[asyncio.Future[None]] = set()

    async def send(self, request: httpx.Request, timeout_seconds: float) -> Response:
        try:
            return await asyncio.wait_for(self._send(request, timeout_seconds), timeout_seconds)
        except asyncio.TimeoutError:
            raise _timed_out(request, timeout_seconds) from None
        except httpx.HTTPError as error:
            raise _unreachable(request, error) from None

    async def _send(self, request: httpx.Request, timeout_seconds: float) -> Response:
        self._extra_headers.add_to(request)
        _set_timeout(request, timeout_seconds)
        response = await self._http.send(request, stream=True)
        try:
            body = bytearray()
            async for part in response.aiter_bytes():
                _append(body, part, request)
            return Response(response.status_code, response.headers, bytes(body))
        finally:
            await response.aclose()

    async def stream(self, request: httpx.Request, timeout_seconds: float) -> AsyncGenerator[bytes | Response, None]:
        self._extra_headers.add_to(request)
        _set_timeout(request, timeout_seconds)
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    yield Response(response.status_code, response.headers, await response.aread())
                    return
                async for part in response.aiter_bytes():
                    yield part
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise _unreachable(request, error) from None

    async def sleep(self, seconds: float) -> None:
        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(max(0.0, seconds), _end_wait, over)
        self._sleeping.add(over)
        try:
            await over
        finally:
            timer.cancel()
            self._sleeping.discard(over)

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        return await result if inspect.isawaitable(result) else result

    async def close(self) -> None:
        await self._http.aclose()

    def stop(self) -> None:
        self._is_stopped = True
        for over in list(self._sleeping):
            _end_wait(over)


class BlockingRuntime(Runtime):
    def __init__(self, **http_options: Any) -> None:
        self._extra_headers = ExtraHeaders(http_options)
        self._http = httpx.Client(follow_redirects=False, **http_options)
        self._stopped = threading.Event()

    async def send(self, request: httpx.Request, timeout_seconds: float) -> Response:
        end = time.monotonic() + timeout_seconds
        self._extra_headers.add_to(request)
        _set_timeout(request, timeout_seconds)
        try:
            response = self._http.send(request, stream=True)
            try:
                body = bytearray()
                for part in response.iter_bytes():
                    _append(body, part, request)
                    if time.monotonic() > end:
                        raise _timed_out(request, timeout_seconds)
                return Response(response.status_code, response.headers, bytes(body))
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise _unreachable(request, error) from None

    async def stream(self, request: httpx.Request, timeout_seconds: float) -> AsyncGenerator[bytes | Response, None]:
        self._extra_headers.add_to(request)
        _set_timeout(request, timeout_seconds)
        try:
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    yield Response(response.status_code, response.headers, response.read())
                    return
                for part in response.iter_bytes():
                    yield part
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise _unreachable(request, error) from None

    async def sleep(self, seconds: float) -> None:
        self._stopped.wait(max(0.0, seconds))

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("a blocking client cannot call a coroutine function; use the client for asyncio")
        return result

    async def close(self) -> None:
        self._http.close()

    def stop(self) -> None:
        self._stopped.set()


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that uses a `BlockingRuntime`."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        value: T = result.value
        return value
    coroutine.close()
    raise RuntimeError("a blocking client waited for an event loop")


def iterate_blocking(generator: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over an asynchronous generator that uses a `BlockingRuntime`."""
    try:
        while True:
            try:
                item = run_blocking(_next(generator))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run_blocking(_close(generator))


async def _next(generator: AsyncGenerator[T, None]) -> T:
    return await generator.__anext__()


async def _close(generator: AsyncGenerator[T, None]) -> None:
    await generator.aclose()


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The blocking form of a client's coroutine method, with the same parameters and documentation."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(method(self.client, *args, **kwargs))

    run.__doc__ = method.__doc__
    run.__name__ = method.__name__
    return run


def blocking_iterator(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The blocking form of a client's asynchronous generator method."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterate_blocking(method(self.client, *args, **kwargs))

    run.__doc__ = method.__doc__
    run.__name__ = method.__name__
    return run


def _end_wait(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _set_timeout(request: httpx.Request, timeout_seconds: float) -> None:
    request.extensions["timeout"] = httpx.Timeout(timeout_seconds).as_dict()


def _append(body: bytearray, part: bytes, request: httpx.Request) -> None:
    body += part
    if len(body) > RESPONSE_BYTES_MAX:
        raise Unreachable(f"{_name(request)}: the response is larger than {RESPONSE_BYTES_MAX} bytes")


def _timed_out(request: httpx.Request, timeout_seconds: float) -> Unreachable:
    return Unreachable(f"{_name(request)}: no complete response within {timeout_seconds:g} s")


def _unreachable(request: httpx.Request, error: httpx.HTTPError) -> Unreachable:
    return Unreachable(f"{_name(request)}: {type(error).__name__}: {error}")


def _name(request: httpx.Request) -> str:
    """The request without its query, which may be long."""
    return f"{request.method} {request.url.copy_with(query=None, username=None, password=None)}"
