"""Both flavours of a client behind one interface without asyncio, so that each test is written once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

from restante_client.runtime import AsyncRuntime, BlockingRuntime


class PausesRecorded:
    """A runtime whose pauses take no time. `pauses` holds their lengths; `stop_after` ends the client."""

    def __init__(self, **options: Any) -> None:
        # No certificate store: loading it takes longer than the test.
        options.setdefault("verify", False)
        super().__init__(**options)
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


class QuickAsyncRuntime(PausesRecorded, AsyncRuntime):
    pass


class QuickBlockingRuntime(PausesRecorded, BlockingRuntime):
    pass


class InLoop:
    """A client for asyncio, used from code without asyncio."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Any) -> None:
        self._loop = loop
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call

    def __repr__(self) -> str:
        return repr(self._client)

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.run_until_complete(generator.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(generator.aclose())
