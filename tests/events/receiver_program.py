"""A receiver of pushed events as a program: a TLS server with one behaviour for each path. Run by `receiver_process`.

    /status/202            always that status; /status/202,500,202: one after another, the last one forever
    /media/TYPE            202 for a request with that content type, else 400 with an error body of RFC 8935
    /redirect              302 to /status/202
    /error                 400 with an error body of RFC 8935
    /silent                reads the request and never responds
    /hang-up               closes the connection after the request
    /garbage               responds with something that is not HTTP
    /long-head             endless headers
    /long-body             202 with a very long body
    /slow-body             202 with a body that never ends
    /close-after           202, then closes the connection without announcing it
    /early                 103 before the 202
    /twice                 two responses
    /flaky/NAME            after a short delay mostly 202, sometimes 400, 503 or no response; always 202 once the file
                           `<record>.stable` exists

Every request is written to the record as a line of JSON before its response, and every response of a flaky path too.
"""

import asyncio
import json
import random
import ssl
import sys
import time
from collections import Counter
from pathlib import Path

CHUNK = b"x" * 1024


def plain(status: int, body: bytes = b"", more: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


class Receiver:
    def __init__(self, record: Path) -> None:
        self._record = record
        self._request_counts: Counter[str] = Counter()
        self._connections = 0
        self._requests = 0
        self._stable_file = record.with_name(f"{record.name}.stable")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                first, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                path = first.split(" ")[1]
                certificate = writer.get_extra_info("peercert") or {}
                self._record_request(connection, first, headers, body, certificate)
                if not await self._respond(path, headers, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def _record_request(
        self, connection: int, first: str, headers: dict[str, str], body: bytes, certificate: object
    ) -> None:
        self._requests += 1
        entry = {"connection": connection, "first": first, "headers": headers, "body": body.decode()}
        numbered = {**entry, "n": self._requests, "arrived": time.monotonic()}
        self._add({**numbered, "certificate": bool(certificate)})

    def _add(self, entry: dict[str, object]) -> None:
        with self._record.open("a") as record:
            record.write(json.dumps(entry) + "\n")

    async def _respond(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        """Respond, and return whether the connection stays open."""
        self._request_counts[path] += 1
        kind, _, statuses = path.lstrip("/").partition("/")
        match kind:
            case "status":
                listed = statuses.split(",")
                writer.write(plain(int(listed[min(self._request_counts[path], len(listed)) - 1])))
            case "media":
                is_expected = headers.get("content-type") == statuses
                writer.write(plain(202) if is_expected else plain(400, b'{"err":"invalid_request"}'))
            case "redirect":
                writer.write(plain(302, more="location: /status/202\r\n"))
            case "error":
                writer.write(plain(400, b'{"err":"invalid_issuer","description":"who are you?"}'))
            case "silent" | "slow-body":
                if kind == "slow-body":
                    writer.write(b"HTTP/1.1 202 X\r\ncontent-length: 100000\r\n\r\n")
                await asyncio.sleep(3600)
            case "garbage":
                writer.write(b"220 mail.example ESMTP\r\n")
            case "early":
                writer.write(b"HTTP/1.1 103 X\r\nlink: </a>\r\n\r\n" + plain(202))
            case "twice":
                writer.write(plain(202) + plain(500))
            case "long-head":
                await self._endlessly(writer, b"HTTP/1.1 202 X\r\n", b"x-long: " + CHUNK + b"\r\n")
            case "long-body":
                await self._endlessly(writer, b"HTTP/1.1 202 X\r\ncontent-length: 100000000\r\n\r\n", CHUNK)
            case "close-after":
                writer.write(plain(202))
            case "flaky":
                return await self._respond_flakily(path, writer)
        await writer.drain()
        return kind not in ("hang-up", "garbage", "close-after")

    async def _respond_flakily(self, path: str, writer: asyncio.StreamWriter) -> bool:
        # No other request was recorded since this one.
        n, chance = self._requests, random.Random(f"{path} {self._request_counts[path]}")
        await asyncio.sleep(chance.uniform(0.0, 0.03))
        status = 202 if self._stable_file.exists() else chance.choices([202, 400, 503, None], [80, 8, 8, 4])[0]
        # Recorded before it is sent, because the sender may act on the response at once.
        self._add({"responds_to": n, "status": status, "ended": time.monotonic()})
        if status is not None:
            writer.write(plain(status))
            await writer.drain()
        return status is not None

    @staticmethod
    async def _endlessly(writer: asyncio.StreamWriter, head: bytes, chunk: bytes) -> None:
        writer.write(head)
        for _ in range(100_000):
            writer.write(chunk)
            await writer.drain()


async def main(port: str, certificate: str, authority: str, record: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    if authority:
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    receiver = Receiver(Path(record))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", int(port), ssl=context, reuse_address=True)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
