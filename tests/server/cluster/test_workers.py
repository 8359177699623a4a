"""The part of starting workers that needs no real process. tests/faults/nodes/test_workers.py has real ones."""

import socket
from contextlib import AbstractContextManager

import pytest

from restante.server.app import Node
from restante.server.cluster import workers
from restante.server.cluster.workers import serve_workers
from restante.server.config.settings import Settings


def test_socket_listens_before_the_first_worker_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))

        class Supervisor:
            """Connects to the socket instead of forking this process."""

            def __init__(self, count: int, work: object, finish_seconds: float) -> None:
                assert (count, finish_seconds) == (3, 1.5)

            def run(self) -> int:
                socket.create_connection(sock.getsockname(), timeout=5).close()
                return 7

        monkeypatch.setattr(workers, "Supervisor", Supervisor)

        def opened(_settings: Settings) -> AbstractContextManager[Node]:
            raise AssertionError("no worker starts in this test")

        assert serve_workers(Settings(workers=3), sock, opened) == 7
