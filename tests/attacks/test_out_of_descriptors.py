"""More connections than file descriptors (promise 16 of SECURITY.md)."""

import asyncio
import errno
import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from restante.server import lifecycle
from restante.server.http.connection_limits import ConnectionLimits, Verdict, descriptor_reserve
from restante.server.http.http_listener import HttpListener
from restante.server.http.tls.files import TlsFiles
from tests.faults.server_process import PROGRAM, TIMEOUT_SECONDS, running_server
from tests.pki import pki
from tests.server.live_server import RawConnection

DESCRIPTORS = 128
FLOOD = 180
LIMITED = ("bash", "-c", f'ulimit -n {DESCRIPTORS} && exec "$0" "$@"', PROGRAM)
# Neither idle nor too slow: these connections keep their descriptors.
PATIENT = ("--header-deadline-seconds", "600")


def limits_with(descriptors: int) -> ConnectionLimits:
    limits = ConnectionLimits(1000, 0, lambda _address: False, lambda: False)
    limits.set_descriptor_limit(descriptors)
    return limits


@pytest.mark.slow
def test_every_connection_is_answered_without_descriptors(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *PATIENT, command=LIMITED) as server, ExitStack() as opened:
        assert "the limit of file descriptors is too low" in server.log_text()
        wires = []
        for _ in range(FLOOD):
            wires.append(opened.enter_context(RawConnection(server.port)))
            with suppress(ConnectionError):
                wires[-1].send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
        refused = int(server.metric("restante_connections_refused_descriptors_total"))
        statuses = [finish(wire) for wire in wires]
        assert statuses.count(200) + statuses.count(503) == FLOOD
        # The request for the metrics may have been over the limit itself.
        assert 0 < refused - statuses.count(503) + 1 <= 2
        assert statuses.count(503) > 0
        assert statuses.count(200) > 0
        assert server.log_text().count("connections refused") == 1
        opened.close()
        server.wait_until_ready()


def finish(wire: RawConnection) -> int:
    with suppress(ConnectionError):
        wire.send(b"a\r\n\r\n")
    return wire.response().status


def test_last_descriptors_are_a_reserve() -> None:
    limits = limits_with(1000)
    assert limits.descriptor_reserve == 250
    assert limits.enter(None, 749) is Verdict.admitted
    with capture_logs() as logged:
        assert limits.enter(None, 750) is Verdict.refused
        assert limits.enter(None, 813) is Verdict.told_now
    assert [line["reason"] for line in logged] == ["descriptors"]
    assert limits.refused["descriptors"] == 2


@pytest.mark.parametrize(("limit", "reserve"), [(20, 16), (256, 64), (1024, 256), (1_000_000, 1024)])
def test_size_of_the_reserve(limit: int, reserve: int) -> None:
    assert descriptor_reserve(limit) == reserve


@pytest.mark.parametrize(("limit", "backlog"), [(256, 32), (1024, 128), (1_000_000, lifecycle.BACKLOG)])
def test_waiting_connections_fit_into_the_reserve(limit: int, backlog: int) -> None:
    assert lifecycle.backlog_of(limits_with(limit)) == backlog


def test_idle_connection_is_closed_for_its_descriptor() -> None:
    limits = ConnectionLimits(1000, 0, lambda _address: False, lambda: True)
    limits.set_descriptor_limit(1000)
    assert limits.enter(None, 900) is Verdict.admitted
    assert limits.idle_closed == 1


class FailingOnce:
    """A listening socket whose first accept fails for want of descriptors."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._failures = 1

    def accept(self) -> tuple[socket.socket, Any]:
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class Shared:
    """Two file descriptors are too many: every connection is refused at once."""

    is_closing = False

    def __init__(self) -> None:
        self.limits = ConnectionLimits(10, 10, lambda _: False, lambda: False)
        self.limits.set_descriptor_limit(2)


class Counted(asyncio.Protocol):
    def __init__(self, limits: ConnectionLimits) -> None:
        self.count_unaccepted = limits.count_unaccepted


async def test_tls_listener_closes_a_connection_for_which_no_descriptor_is_left() -> None:
    shared: Any = Shared()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        failing = cast(socket.socket, FailingOnce(sock))
        context = TlsFiles(Path(pki().server.certificate), Path(pki().server.key)).context()
        make_protocol = cast(Any, lambda: Counted(shared.limits))
        listener = HttpListener(asyncio.get_running_loop(), failing, make_protocol, shared, context, 10.0)
        for refused in (1, 2):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            async with asyncio.timeout(TIMEOUT_SECONDS):
                assert await reader.read() == b""
            writer.close()
            assert (shared.limits.refused["descriptors"], shared.limits.refused_now) == (refused, 0)
        listener.close()
        await listener.wait_closed()
