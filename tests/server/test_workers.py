"""Workers are real processes, which tests/faults/test_workers.py kills and counts; here what needs none."""

import socket
from contextlib import AbstractContextManager

import pytest

from restante.server import workers
from restante.server.app import Node
from restante.server.settings import Settings
from restante.server.workers import serve_workers


def test_the_socket_listens_before_the_first_worker_is_born(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))

        class Supervisor:
            """Instead of forking this process."""

            def __init__(self, count: int, work: object, finish_seconds: float) -> None:
                assert (count, finish_seconds) == (3, 1.5)

            def run(self) -> int:
                socket.create_connection(sock.getsockname(), timeout=5).close()
                return 7

        monkeypatch.setattr(workers, "Supervisor", Supervisor)

        def opened(_settings: Settings) -> AbstractContextManager[Node]:
            raise AssertionError("nobody is born here")

        assert serve_workers(Settings(workers=3), sock, opened) == 7
