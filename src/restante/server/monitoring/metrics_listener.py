"""`GET /metrics` at a separate address, so that a firewall can keep clients away from it.

A minimal server: one request for each connection, a bounded head, a deadline. It serves nothing else. Where several
workers share the address, any of them answers for all.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from prometheus_client.exposition import CONTENT_TYPE_LATEST

from restante.server.config.setting_types import Address

HEAD_BYTES_MAX = 8192
REQUEST_SECONDS = 10.0

Render = Callable[[], Awaitable[bytes]]


def is_token_valid(authorization: str | None, token: str | None) -> bool:
    """Whether the value of an `Authorization` header has the token; always, if none is required."""
    if token is None:
        return True
    scheme, _, given = (authorization or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


@asynccontextmanager
async def serving_metrics(address: Address, render: Render, token: str | None, *, shared: bool) -> AsyncIterator[int]:
    """Serve the metrics at the address; yields the port. `shared`: other processes listen there too."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(await _response(await reader.readuntil(b"\r\n\r\n"), render, token))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(
        respond, address.host, address.port, limit=HEAD_BYTES_MAX, reuse_port=shared or None
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def _response(head: bytes, render: Render, token: str | None) -> bytes:
    lines = head.decode("latin-1").split("\r\n")
    method, _, rest = lines[0].partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if path != "/metrics":
        return _plain("404 Not Found")
    if method != "GET":
        return _plain("405 Method Not Allowed", "allow: GET\r\n")
    if not is_token_valid(headers.get("authorization"), token):
        return _plain("401 Unauthorized", 'www-authenticate: Bearer realm="restante"\r\n')
    return _bytes("200 OK", await render(), f"content-type: {CONTENT_TYPE_LATEST}\r\n")


def _plain(status: str, headers: str = "") -> bytes:
    return _bytes(status, status.encode() + b"\n", "content-type: text/plain\r\n" + headers)


def _bytes(status: str, body: bytes, headers: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close"
    return head.encode() + b"\r\n\r\n" + body
