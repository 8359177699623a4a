"""`OperatorClient`: the operator API, as the command line and other programs of operators use it.

credential                       the client acts as
API key `rk_…`                   a program, with the grants of the key
token `rp_…` of `sign_in`        the person who approved it in a browser
none, `OperatorClient.local`     the administrator of the machine, over the Unix socket of the data folder
"""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Callable, TypedDict, Union

import httpx

from restante_client.calls import TIMEOUT_SECONDS
from restante_client.clients import BlockingClient, Client, blocking_runtime
from restante_client.errors import EnrolmentRefused
from restante_client.operator.core import Api
from restante_client.operator.nouns import BlockingNouns, Nouns
from restante_client.runtime import Runtime, blocking

LOCAL_URL = "http://localhost"
SIGN_IN_PATH = "/auth/cli"


class SignInCode(TypedDict, total=False):
    """What a person needs to approve a command line in a browser."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: int
    expires_in: int


class SignedIn(TypedDict, total=False):
    """The token of a person at a command line, and its lifetime in seconds."""

    user_id: int
    access_token: str
    expires_in: int


ShowCode = Callable[[SignInCode], Union[Awaitable[None], None]]


class _NoStore:
    """An operator's client stores nothing on disk."""

    def close(self) -> None:
        pass


class OperatorClient(Client, Nouns):
    """The operator API. Its methods are grouped by noun: `client.sites.list()`, `client.commands.create(…)`.

    `http`: options of httpx, such as `verify`, `proxy`, `headers` and `cookies`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        http: dict[str, Any] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        Client.__init__(self, url, timeout_seconds, http, runtime)
        self.url = url
        self._store = _NoStore()
        self.api = Api(self._caller, token)
        Nouns.__init__(self, self.api)

    def __repr__(self) -> str:
        return f"OperatorClient({self.url!r})"

    @classmethod
    def local(cls, socket: Path, *, timeout_seconds: float = TIMEOUT_SECONDS) -> OperatorClient:
        """A client of the server on this machine whose Unix socket this is."""
        http = {"transport": httpx.AsyncHTTPTransport(uds=str(socket))}
        return cls(LOCAL_URL, timeout_seconds=timeout_seconds, http=http)

    async def sign_in(self, show: ShowCode) -> SignedIn:
        """Sign a person in: `show` gets the code to approve in a browser. Raises `EnrolmentRefused`."""
        code = await self.api.call("POST", SIGN_IN_PATH, body={"action": "start"}, is_wrapped=True)
        device_code = code.pop("device_code")
        await self._runtime.call(show, code)
        while not self._is_stopped:
            await self._runtime.sleep(code["interval"])
            polled = await self.api.call(
                "POST", SIGN_IN_PATH, body={"action": "poll", "device_code": device_code}, is_wrapped=True
            )
            if polled["status"] == "ready":
                signed_in: SignedIn = polled
                return signed_in
            if polled["status"] in ("access_denied", "expired"):
                raise EnrolmentRefused("the sign-in was denied" if polled["status"] == "access_denied" else "too late")
        raise EnrolmentRefused("the sign-in was stopped")

    async def sign_out(self) -> None:
        """End the session of this client's token."""
        await self.api.call("POST", SIGN_IN_PATH, body={"action": "end"}, is_wrapped=True)

    async def request(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> Any:
        """Call any route of the server; for routes that have no method here. Returns the decoded response."""
        return await self.api.call(method, path, query=query, body=body)


class BlockingOperatorClient(BlockingClient[OperatorClient], BlockingNouns):
    """The operator API for programs without asyncio: the same methods as `OperatorClient`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        http: dict[str, Any] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        runtime = blocking_runtime(runtime, http)
        BlockingClient.__init__(self, OperatorClient(url, token, timeout_seconds=timeout_seconds, runtime=runtime))
        BlockingNouns.__init__(self, self.client)

    @classmethod
    def local(cls, socket: Path, *, timeout_seconds: float = TIMEOUT_SECONDS) -> BlockingOperatorClient:
        """A client of the server on this machine whose Unix socket this is."""
        http = {"transport": httpx.HTTPTransport(uds=str(socket))}
        return cls(LOCAL_URL, timeout_seconds=timeout_seconds, http=http)

    sign_in = blocking(OperatorClient.sign_in)
    sign_out = blocking(OperatorClient.sign_out)
    request = blocking(OperatorClient.request)
