"""A disk that is full, or a log that cannot be written: changes are refused, none is lost, all goes on afterwards."""

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

from tests.faults.client import DeviceHandle, Reply
from tests.faults.server_process import PATIENCE_SECONDS, PROGRAM
from tests.faults.site import Site, site

pytestmark = pytest.mark.slow

SENT_MAX = 3000
BALLAST_BYTES = 4096


class Disk:
    """A disk that is full when told to be."""

    def __init__(self, running_site: Site) -> None:
        self._site = running_site

    def fill(self) -> None:
        raise NotImplementedError

    def free(self) -> None:
        raise NotImplementedError


class LimitedFiles(Disk):
    """No file may grow: the kernel refuses the server's writes past the size its files have now."""

    def fill(self) -> None:
        resource.prlimit(self._site.server.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def free(self) -> None:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self._site.server.pid, resource.RLIMIT_FSIZE, unlimited)


class SmallMount(Disk):
    """A small file system, the server's own: a file beside the database takes all that is left."""

    @property
    def _ballast(self) -> Path:
        inside = self._site.data.relative_to("/")
        return Path("/proc") / str(self._site.server.pid) / "root" / inside / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(BALLAST_BYTES))

    def free(self) -> None:
        self._ballast.unlink()


# The folder as it was prepared is copied into the mount; both are gone with the process.
MOUNTING = 'cp -a "$0" "$0.kept" && mount -t tmpfs -o size=64m tmpfs "$0" && cp -a "$0.kept/." "$0" && exec "$@"'


@contextmanager
def site_on(kind: type[Disk], folder: Path) -> Iterator[tuple[Site, Disk]]:
    command: tuple[str, ...] = (PROGRAM,)
    if kind is SmallMount:
        if not can_mount(folder):
            pytest.skip("this user may not mount a file system")
        command = ("unshare", "-m", "sh", "-c", MOUNTING, str(folder / "data"), PROGRAM)
    with site(folder, command=command) as running_site:
        yield running_site, kind(running_site)


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("kind", [LimitedFiles, SmallMount])
def test_a_full_disk_refuses_changes_and_loses_none(tmp_path: Path, kind: type[Disk]) -> None:
    with site_on(kind, tmp_path) as (running_site, disk):
        device, other = running_site.add_device(), running_site.add_device()
        idle = running_site.client_of(other)
        poll = running_site.park(other)
        sent = [running_site.send(device, number=number) for number in range(5)]
        disk.fill()
        sent += send_until_refused(running_site, device, first=len(sent))
        assert all(is_unavailable(running_site.send(device, number=-1)) for _ in range(5))
        if kind is SmallMount:
            assert is_unavailable(running_site.operator.ask("GET", "/readyz"))
        assert idle.poll("0-0").status == 204
        assert idle.poll("0-0", fast=False).status == 204
        assert running_site.client_of(device).poll(None).status == 200
        disk.free()

        wait_until_writable(running_site, other)
        running_site.server.wait_until_ready()
        reply = poll.result(PATIENCE_SECONDS)
        assert reply.data["signals"][0]["ref"] == {"number": "again"}
        acknowledged = [number for number, reply in enumerate(sent) if reply.status == 202]
        wait_until_told(running_site, device, acknowledged)
        if kind is LimitedFiles:
            running_site.server.kill()
            running_site.server.start()
            running_site.server.wait_until_ready()
            wait_until_told(running_site, device, acknowledged)


def send_until_refused(running_site: Site, device: DeviceHandle, first: int) -> list[Reply]:
    """Changes until one is refused: what was allotted to the database before may still take some."""
    replies: list[Reply] = []
    while not replies or replies[-1].status == 202:
        replies.append(running_site.send(device, number=first + len(replies), ballast="x" * 3000))
        assert len(replies) < SENT_MAX, "the disk is not full"
    assert is_unavailable(replies[-1]), replies[-1]
    return replies


def is_unavailable(reply: Reply) -> bool:
    return reply.status == 503 and int(reply.headers["Retry-After"]) >= 1 and reply.body["error"]["code"] == 50300


def wait_until_writable(running_site: Site, device: DeviceHandle) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while running_site.send(device, number="again").status != 202:
        assert time.monotonic() < deadline, "changes are still refused"
        time.sleep(0.05)


def wait_until_told(running_site: Site, device: DeviceHandle, numbers: list[int]) -> None:
    """Everything acknowledged arrives, in order, and nothing that was refused."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (told := [ref["number"] for ref in running_site.refs_of(device)]) != numbers:
        assert time.monotonic() < deadline, f"told {told}, acknowledged {numbers}"
        time.sleep(0.05)


def test_a_server_on_a_full_disk_stops_as_any_other(tmp_path: Path) -> None:
    with site_on(LimitedFiles, tmp_path) as (running_site, disk):
        device = running_site.add_device()
        poll = running_site.park(device)
        disk.fill()
        assert is_unavailable(running_site.send(device, number=1))
        running_site.server.tell(signal.SIGTERM)
        assert poll.result(PATIENCE_SECONDS).status == 204
        assert running_site.server.wait_for_exit() == 0
        assert "Traceback" not in running_site.server.log_text()


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """Log lines are lost where they cannot be kept, and nothing else is."""
    command = ("sh", "-c", 'exec "$0" "$@" 2>/dev/full', PROGRAM)
    with site(tmp_path, "--log-level", "debug", command=command) as running_site:
        device = running_site.add_device()
        for number in range(3):
            poll = running_site.park(device, cursor=newest_cursor(running_site, device))
            assert running_site.send(device, number=number).status == 202
            reply = poll.result(PATIENCE_SECONDS)
            assert [each["ref"] for each in reply.data["signals"]] == [{"number": number}]


def newest_cursor(running_site: Site, device: DeviceHandle) -> str:
    return running_site.client_of(device).poll(None).headers["ETag"]
