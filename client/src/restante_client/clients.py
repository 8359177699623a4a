"""What all clients have in common: a runtime, a state folder, a start and an end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from restante_client.calls import Caller
from restante_client.runtime import AsyncRuntime, BlockingRuntime, Runtime, blocking

C = TypeVar("C", bound="Client")
T = TypeVar("T")
B = TypeVar("B", bound="BlockingClient[Any]")


class Store(Protocol):
    """The stored state of a client. Each kind of client has its own."""

    def close(self) -> None: ...


class Client:
    """A client for programs with asyncio. The blocking classes give it a blocking runtime."""

    _store: Store

    def __init__(self, url: str, timeout_seconds: float, http: dict[str, Any] | None, runtime: Runtime | None) -> None:
        self._runtime = runtime or AsyncRuntime(**(http or {}))
        self._caller = Caller(url, self._runtime, timeout_seconds)
        self._is_stopped = False

    async def __aenter__(self: C) -> C:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def stop(self) -> None:
        """End the client's loop after the item that is being handled. May be called from another thread."""
        self._is_stopped = True
        self._runtime.stop()

    async def close(self) -> None:
        """Close the connections and the state folder."""
        await self._runtime.close()
        self._store.close()


class BlockingClient(Generic[C]):
    """A client for programs without asyncio: the same methods as the client that it holds."""

    def __init__(self, client: C) -> None:
        self.client = client

    def __enter__(self: B) -> B:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Blocking{self.client!r}"

    close = blocking(Client.close)

    def stop(self) -> None:
        """End the client's loop after the item that is being handled. May be called from another thread."""
        self.client.stop()


def blocking_runtime(runtime: Runtime | None, http: dict[str, Any] | None) -> Runtime:
    return runtime or BlockingRuntime(**(http or {}))


@asynccontextmanager
async def closing_generator(generator: AsyncGenerator[T, None]) -> AsyncIterator[AsyncGenerator[T, None]]:
    """Close the generator at the end of the block; `contextlib.aclosing` of Python 3.10."""
    try:
        yield generator
    finally:
        await generator.aclose()
