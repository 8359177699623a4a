"""A full disk, or a log file that cannot be written: changes are refused, none is lost, and service recovers."""

import contextlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.client import DeviceHandle, Response
from tests.faults.device_server import DeviceServer, running_device_server
from tests.faults.server_process import PROGRAM, TIMEOUT_SECONDS

pytestmark = pytest.mark.slow

SENT_MAX = 3000
BALLAST_BYTES = 4096


class Disk:
    """A disk that a test can fill and free."""

    def __init__(self, server: DeviceServer) -> None:
        self._server = server

    def fill(self) -> None:
        raise NotImplementedError

    def free(self) -> None:
        raise NotImplementedError


class LimitedFiles(Disk):
    """The kernel refuses writes that would make the server's files grow."""

    def fill(self) -> None:
        resource.prlimit(self._server.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def free(self) -> None:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self._server.process.pid, resource.RLIMIT_FSIZE, unlimited)


class SmallMount(Disk):
    """A small file system for the server alone; a file beside the database uses up the free space."""

    @property
    def _ballast(self) -> Path:
        inside = self._server.data.relative_to("/")
        return Path("/proc") / str(self._server.process.pid) / "root" / inside / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(BALLAST_BYTES))

    def free(self) -> None:
        self._ballast.unlink()


# The prepared folder is copied into the mount; the mount disappears with the process.
MOUNTING = 'cp -a "$0" "$0.kept" && mount -t tmpfs -o size=64m tmpfs "$0" && cp -a "$0.kept/." "$0" && exec "$@"'


@contextmanager
def server_on(kind: type[Disk], folder: Path) -> Iterator[tuple[DeviceServer, Disk]]:
    command: tuple[str, ...] = (PROGRAM,)
    if kind is SmallMount:
        if not can_mount(folder):
            pytest.skip("this user may not mount a file system")
        command = ("unshare", "-m", "sh", "-c", MOUNTING, str(folder / "data"), PROGRAM)
    with running_device_server(folder, command=command) as server:
        yield server, kind(server)


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("kind", [LimitedFiles, SmallMount])
def test_full_disk_refuses_changes_and_loses_none(tmp_path: Path, kind: type[Disk]) -> None:
    with server_on(kind, tmp_path) as (server, disk):
        device, other = server.add_device(), server.add_device()
        idle = server.client_of(other)
        poll = server.park(other)
        sent = [server.send(device, number=number) for number in range(5)]
        disk.fill()
        sent += send_until_refused(server, device, first=len(sent))
        assert all(is_unavailable(server.send(device, number=-1)) for _ in range(5))
        assert is_unavailable(server.operator.request("GET", "/readyz"))
        assert idle.poll("0-0").status == 204
        assert idle.poll("0-0", fast_lane=False).status == 204
        assert server.client_of(device).poll(None).status == 200
        disk.free()

        wait_until_writable(server, other)
        server.process.wait_until_ready()
        response = poll.result(TIMEOUT_SECONDS)
        assert response.data["signals"][0]["ref"] == {"number": "again"}
        acknowledged = [number for number, response in enumerate(sent) if response.status == 202]
        wait_until_delivered(server, device, acknowledged)
        if kind is LimitedFiles:
            server.process.kill()
            server.process.start()
            server.process.wait_until_ready()
            wait_until_delivered(server, device, acknowledged)


def send_until_refused(server: DeviceServer, device: DeviceHandle, first: int) -> list[Response]:
    """Send changes until one is refused: space that the database has already allocated may take some."""
    responses: list[Response] = []
    while not responses or responses[-1].status == 202:
        responses.append(server.send(device, number=first + len(responses), ballast="x" * 3000))
        assert len(responses) < SENT_MAX, "the disk is not full"
    assert is_unavailable(responses[-1]), responses[-1]
    return responses


def is_unavailable(response: Response) -> bool:
    return (
        response.status == 503 and int(response.headers["Retry-After"]) >= 1 and response.body["error"]["code"] == 50300
    )


def wait_until_writable(server: DeviceServer, device: DeviceHandle) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while server.send(device, number="again").status != 202:
        assert time.monotonic() < deadline, "changes are still refused"
        time.sleep(0.05)


def wait_until_delivered(server: DeviceServer, device: DeviceHandle, numbers: list[int]) -> None:
    """All acknowledged signals are delivered in order, and no refused one."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (delivered := [ref["number"] for ref in server.refs_of(device)]) != numbers:
        assert time.monotonic() < deadline, f"delivered {delivered}, acknowledged {numbers}"
        time.sleep(0.05)


def test_server_on_a_full_disk_stops_cleanly(tmp_path: Path) -> None:
    with server_on(LimitedFiles, tmp_path) as (server, disk):
        device = server.add_device()
        poll = server.park(device)
        disk.fill()
        assert is_unavailable(server.send(device, number=1))
        server.process.send_signal(signal.SIGTERM)
        assert poll.result(TIMEOUT_SECONDS).status == 204
        assert server.process.wait_for_exit() == 0
        assert "Traceback" not in server.process.log_text()


def test_unwritable_log_file_stops_nothing(tmp_path: Path) -> None:
    """Only log lines are lost."""
    command = ("sh", "-c", 'exec "$0" "$@" 2>/dev/full', PROGRAM)
    with running_device_server(tmp_path, "--log-level", "debug", command=command) as server:
        device = server.add_device()
        for number in range(3):
            poll = server.park(device, cursor=newest_cursor(server, device))
            assert server.send(device, number=number).status == 202
            response = poll.result(TIMEOUT_SECONDS)
            assert [each["ref"] for each in response.data["signals"]] == [{"number": number}]


def newest_cursor(server: DeviceServer, device: DeviceHandle) -> str:
    return server.client_of(device).poll(None).headers["ETag"]
