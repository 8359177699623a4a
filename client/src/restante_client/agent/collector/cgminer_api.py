"""The CGMiner API: one JSON request per TCP connection, one JSON reply that ends with a NUL byte or the connection.

    {"command": "switchpool", "parameter": "1"}  ─▶  {"STATUS": [{"STATUS": "S", "Code": 27, "Msg": "…"}], …, "id": 1}

`restart` and `quit` have no status: the reply is the text RESTART or BYE, often not JSON, or the connection just ends.

Firmware in the field sends NUL bytes within the text, control characters in strings, and objects without a comma
between them (`}{`). All of that is read.
"""

from __future__ import annotations

import json
import re
import socket
import time
from typing import Any

from restante_client.agent.collector.drivers import MinerRefused, MinerUnreachable, NoAnswer

PORT = 4028
TIMEOUT_SECONDS = 10.0
REPLY_BYTES_MAX = 1024 * 1024
MESSAGE_MAX = 300
# These end the program that answers.
WITHOUT_STATUS = frozenset({"restart", "quit"})
_MISSING_COMMA = re.compile(r"\}\s*\{")


class CgMinerApi:
    def __init__(self, host: str, port: int = PORT, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._address = (host, port)
        self._timeout_seconds = timeout_seconds

    def __repr__(self) -> str:
        return f"CgMinerApi({self._address[0]}:{self._address[1]})"

    def call(self, command: str, parameter: str | None = None) -> dict[str, Any]:
        """Send a command and return the reply, or raise one of the errors of drivers."""
        request = {"command": command, **({} if parameter is None else {"parameter": parameter})}
        reply = self._exchange(json.dumps(request).encode(), command)
        if command in WITHOUT_STATUS:
            return self._checked_end(reply, command)
        return checked(decode(reply, command), command)

    def _checked_end(self, reply: bytes, command: str) -> dict[str, Any]:
        """The reply to a command that ends the miner's program: a refusal has a status, everything else means yes."""
        try:
            found = decode(reply, command)
        except NoAnswer:
            return {}
        return checked(found, command) if "STATUS" in found else found

    def _exchange(self, request: bytes, command: str) -> bytes:
        end = time.monotonic() + self._timeout_seconds
        try:
            connection = socket.create_connection(self._address, self._timeout_seconds)
        except OSError as error:
            raise MinerUnreachable(f"no connection: {error}") from None
        with connection:
            try:
                connection.sendall(request)
                return self._receive(connection, end)
            except OSError as error:
                if command in WITHOUT_STATUS and not isinstance(error, socket.timeout):
                    return b""
                raise NoAnswer(f"{command}: no complete answer: {error}") from None

    def _receive(self, connection: socket.socket, end: float) -> bytes:
        reply = bytearray()
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise socket.timeout(f"not within {self._timeout_seconds:g} s")
            connection.settimeout(left)
            part = connection.recv(65_536)
            reply += part
            if not part or part.endswith(b"\0"):
                return bytes(reply)
            if len(reply) > REPLY_BYTES_MAX:
                raise OSError(f"the reply is larger than {REPLY_BYTES_MAX} bytes")


def decode(reply: bytes, command: str) -> dict[str, Any]:
    text = reply.replace(b"\0", b"").decode("utf-8", "replace")
    for candidate in (text, _MISSING_COMMA.sub("},{", text)):
        try:
            found = json.loads(candidate, strict=False)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise NoAnswer(f"{command}: the answer is not JSON")


def checked(reply: dict[str, Any], command: str) -> dict[str, Any]:
    """The reply, unless its status says that the miner refused."""
    rows = reply.get("STATUS")
    status = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
    if status is None or not isinstance(status.get("STATUS"), str):
        raise NoAnswer(f"{command}: the answer has no status")
    if status["STATUS"] in ("E", "F"):
        code = status.get("Code")
        raise MinerRefused(
            f"{command}: {str(status.get('Msg', ''))[:MESSAGE_MAX]}", code if isinstance(code, int) else 0
        )
    return reply


def rows(reply: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """The rows of a section of a reply."""
    found = reply.get(section)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def escaped(text: str) -> str:
    """A text as one of several parameters: the API separates parameters by commas."""
    return text.replace("\\", "\\\\").replace(",", "\\,")
