"""The clock of the embedded database: this machine's clock, except that it does not go back within one boot.

    machine's clock ──────╱│            set back an hour
                           │   ╱╱       this clock goes on, at three quarters of the normal speed …
                           └──╱───╱──   … until the machine's clock has caught up

Leases, back-offs and expiry times are stored as times of this clock. If it went back an hour, each of them would last
an hour longer. Forward steps are followed at once.

The last time is kept in a file beside the database, with the id of the boot, so that the next process of the same boot
continues from it. It is not flushed to disk: after a power cut the boot is another one, and the file counts no more.
"""

import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# The slowest speed, as a fraction: a lease lasts at most a third longer while the machine's clock catches up.
_SLOW, _NORMAL = 3, 4
_BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")
# The id of the boot, the time since that boot, and the time of this clock then.
_RECORD = struct.Struct("<36sqq")

Nanoseconds = Callable[[], int]


def _since_boot_ns() -> int:
    """Counts the time that the machine sleeps, too."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Callable: milliseconds since the epoch. May be used by several threads."""

    def __init__(self, path: Path, wall: Nanoseconds = time.time_ns, since_boot: Nanoseconds = _since_boot_ns) -> None:
        self._path = path
        self._wall = wall
        self._since_boot = since_boot
        self._boot_id = _boot_id()
        # The time since the boot and the time of this clock, at the last reading.
        self._last = self._read()

    def __call__(self) -> int:
        return self._now_ns() // 1_000_000

    def seconds(self) -> float:
        return self._now_ns() / 1e9

    def seconds_ahead(self) -> float:
        """How far this clock is ahead of the machine's clock, which was set back."""
        return max(0.0, (self._now_ns() - self._wall()) / 1e9)

    def save(self) -> None:
        """Keep the time for the next process. A disk that cannot be written loses no more than that."""
        self._now_ns()
        since_boot, now = self._last
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(descriptor, _RECORD.pack(self._boot_id, since_boot, now), 0)
            finally:
                os.close(descriptor)

    def _now_ns(self) -> int:
        since_boot, (last_since_boot, last) = self._since_boot(), self._last
        earliest = last + max(0, since_boot - last_since_boot) * _SLOW // _NORMAL
        now = max(self._wall(), earliest)
        self._last = since_boot, now
        return now

    def _read(self) -> tuple[int, int]:
        try:
            boot_id, since_boot, now = _RECORD.unpack(self._path.read_bytes())
        except (OSError, struct.error):
            return self._since_boot(), self._wall()
        if not self._boot_id or boot_id != self._boot_id or since_boot > self._since_boot():
            return self._since_boot(), self._wall()
        return since_boot, now


def _boot_id() -> bytes:
    try:
        return _BOOT_ID_PATH.read_bytes().strip()[:36]
    except OSError:
        return b""
