"""A TLS host that publishes documents of clients, in the process of the test."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.events.tls_files import TlsFiles


class KeyHost:
    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.body = b"{}"
        self.requests: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def uri(self) -> str:
        return f"https://localhost:{self.port}/keys.json"

    def publish(self, document: Any) -> None:
        self.body = json.dumps(document).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.decode().split("\r\n")[0])
        await self.gate.wait()
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (self.status, len(self.body)) + self.body)
        writer.close()


@asynccontextmanager
async def key_host(tls: TlsFiles) -> AsyncIterator[KeyHost]:
    host = KeyHost()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.receiver)
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=context)
    host.port = server.sockets[0].getsockname()[1]
    async with server:
        yield host
