"""The link that opens the console signed in: a code that works once, within some minutes.

    browser ── GET /open/CODE ──▶ this process ── e-mail, password ──▶ server
            ◀── cookie, redirect to the console ──────── cookie ─────────┘

The server has no way to sign in with a link: this process signs in with the person's password, as a browser would, and
hands the session's cookie over. Cookies do not depend on the port, so the cookie of this address counts for the server
on the same host. The code is useless after its first use, and no page, log or history gets anything else.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

CODE_SECONDS = 600.0
REQUEST_BYTES_MAX = 16_384
READ_SECONDS = 10.0
PATH = "/open/"
_HEADERS = "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"

SignIn = Callable[[], Awaitable[str]]


class SessionLink:
    """`sign_in` returns the header `Set-Cookie` of a new session."""

    def __init__(self, console: str, sign_in: SignIn, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._sign_in = sign_in
        self._clock = clock
        self._code: str | None = secrets.token_urlsafe(24)
        self._expires_at = clock() + CODE_SECONDS
        self._server: asyncio.Server | None = None

    async def open(self, host: str) -> str:
        """Listen on a free port of the host; returns the link."""
        self._server = await asyncio.start_server(self._serve, host, 0, limit=REQUEST_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}{PATH}{self._code}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write((await self._answer(head.decode("latin-1"))).encode())
            await writer.drain()
        writer.close()

    async def _answer(self, head: str) -> str:
        method, _, rest = head.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or not target.startswith(PATH):
            return _text("404 Not Found", "There is nothing at this path.")
        if not self._consume(target.removeprefix(PATH)):
            return _text("410 Gone", f"This link was used or is too old. Sign in at {self._console}")
        cookie = await self._sign_in()
        return (
            f"HTTP/1.1 303 See Other\r\nLocation: {self._console}\r\nSet-Cookie: {cookie}\r\n{_HEADERS}"
            "Content-Length: 0\r\n\r\n"
        )

    def _consume(self, code: str) -> bool:
        """Whether the code is the valid one; then it is valid no more."""
        wanted = self._code
        if wanted is None or not hmac.compare_digest(code.encode(), wanted.encode()):
            return False
        self._code = None
        return self._clock() < self._expires_at


def _text(status: str, text: str) -> str:
    body = text + "\n"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n{_HEADERS}"
        f"Content-Length: {len(body.encode())}\r\n\r\n{body}"
    )
