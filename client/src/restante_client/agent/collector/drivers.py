"""What the collector needs of a miner, whatever its make: the interface of drivers, and how they fail.

A driver calls one miner and blocks until it has an answer or gives up. It does not use commands, leases or the server.
The caller makes sure that one thread at a time uses it.

Each of the four errors has a meaning for the state of the miner:

    MinerUnreachable   nothing was sent: the miner has done nothing
    NoAnswer           the request was sent, no complete answer came: the miner may have done it
    MinerRefused       the miner answered that it will not do it
    NotSupported       this make of miner has no such operation
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional, Protocol

LOW, NORMAL, HIGH = "LOW", "NORMAL", "HIGH"
POWER_MODES = (LOW, NORMAL, HIGH)


class MinerError(Exception):
    """An operation on a miner failed. `code` becomes the result code of the ACK."""

    code: str = "MINER_ERROR"


class MinerUnreachable(MinerError):
    """No connection: the miner has done nothing."""

    code = "MINER_UNREACHABLE"


class NoAnswer(MinerError):
    """The request was sent and no complete answer came: the miner may have done it."""

    code = "MINER_NO_ANSWER"


class MinerRefused(MinerError):
    """The miner answered that it will not do it. `code` is the miner's own number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = f"MINER_{code}"


class NotSupported(MinerError):
    """This make of miner has no such operation."""

    code = "NOT_SUPPORTED"


@dataclass(frozen=True)
class Reading:
    """What a miner measures: TH/s, degrees Celsius, watts, revolutions per minute. None: it does not say."""

    hashrate: Optional[float] = None
    temp_max: Optional[float] = None
    temp_avg: Optional[float] = None
    power: Optional[float] = None
    fan_rpm: list[int] = field(default_factory=list)
    frequency: Optional[float] = None
    is_hashing: Optional[bool] = None
    pool: Optional[str] = None
    uptime_seconds: Optional[int] = None

    def measurements(self) -> dict[str, Any]:
        """The known values, under the names that rules of the server use."""
        named: dict[str, Any] = {
            "hashrate": self.hashrate,
            "temp_max": self.temp_max,
            "temp_avg": self.temp_avg,
            "power": self.power,
            "fan_rpm_min": min(self.fan_rpm, default=None),
            "fan_rpm_max": max(self.fan_rpm, default=None),
            "frequency": self.frequency,
            "is_hashing": self.is_hashing,
            "pool": self.pool,
            "uptime_seconds": self.uptime_seconds,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class Pool:
    """A pool to mine for. The password is not shown."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)


class Driver(Protocol):
    """One miner. Every method but `read` and `check` changes it and returns a short text for the ACK."""

    def read(self) -> Reading:
        """What the miner measures now."""

    def check(self) -> str:
        """What `doctor` shows: model and version, and whether this machine may change the miner."""

    def restart(self) -> str:
        """Restart the mining software."""

    def reboot(self) -> str:
        """Reboot the whole machine."""

    def enable(self) -> str:
        """Start hashing."""

    def disable(self) -> str:
        """Stop hashing."""

    def select_pool(self, number: int) -> str:
        """Mine for a pool that the miner has."""

    def set_pool(self, pool: Pool) -> str:
        """Mine for this pool. An older entry with the same address and user is removed."""

    def set_fan(self, percent: int) -> str:
        """Set the speed of the fans."""

    def set_frequency(self, megahertz: int) -> str:
        """Set the frequency of the chips."""

    def set_power_mode(self, mode: str) -> str:
        """One of LOW, NORMAL, HIGH."""
