"""Rounds of requests on loopback: the server finds all requests of a round at once, and nothing else to do.

The server is stopped while a round is sent. So its event loop and its batches see the same requests together in every
run, whatever else runs on the machine.
"""

import os
import re
import signal
import socket
from collections.abc import Sequence

from bench.tools.processes import process_stat

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Rounds:
    """One request on each connection at a time. Connections stay open, or each one is for one request."""

    def __init__(self, pid: int, port: int, connections: int, *, new_connections: bool = False) -> None:
        self._pid = pid
        self._port = port
        self._connections = connections
        self._new_connections = new_connections
        self._open: list[socket.socket] = []
        self.reopen()

    def send(self, requests: Sequence[bytes]) -> list[bytes]:
        """Send a request on each connection; returns the bodies of the responses, which all must be 2xx."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            self._wait_until_stopped()
            if self._new_connections:
                self._open = [self._connect() for _ in requests]
            for connection, request in zip(self._open, requests, strict=True):
                connection.sendall(request)
        finally:
            os.kill(self._pid, signal.SIGCONT)
        responses = [_receive(connection) for connection in self._open]
        if self._new_connections:
            self.close()
        return responses

    def reopen(self) -> None:
        """Open the connections again. A connection whose first request had an unknown token is slower for good."""
        self.close()
        if not self._new_connections:
            self._open = [self._connect() for _ in range(self._connections)]

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def _wait_until_stopped(self) -> None:
        while (state := process_stat(self._pid)[0]) != "T":
            if state == "Z":
                raise RuntimeError("the server has ended")

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _receive(connection: socket.socket) -> bytes:
    received = b""
    while not _is_complete(received):
        data = connection.recv(65_536)
        if not data:
            raise RuntimeError(f"the server closed a connection after {received!r}")
        received += data
    if not received.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"the server responded {received!r}")
    return received.partition(b"\r\n\r\n")[2]


def _is_complete(received: bytes) -> bool:
    head, gap, body = received.partition(b"\r\n\r\n")
    length = _LENGTH.search(head + b"\r\n")
    return bool(gap) and len(body) >= (int(length[1]) if length else 0)
