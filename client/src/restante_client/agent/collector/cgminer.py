"""A driver for miners with the CGMiner API.

The operations that all makes share (restart, pools, switching chips on and off, reading) are CGMiner's own. For fan,
frequency, power mode and reboot each make has its own parameters of `ascset`: a *dialect* lists them as templates.
`{asc}` in a template means: for each hash board that the miner lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from restante_client.agent.collector.cgminer_api import CgMinerApi, escaped, rows
from restante_client.agent.collector.drivers import (
    HIGH,
    LOW,
    NORMAL,
    Driver,
    MinerError,
    MinerRefused,
    NotSupported,
    Pool,
    Reading,
)

# The operations that a dialect may define, and that an inventory may define for a miner: "command|parameter".
OPERATIONS = ("fan", "frequency", "power_mode", "reboot", "enable", "disable")
DIALECTS: dict[str, dict[str, str]] = {
    "cgminer": {
        "fan": "ascset|{asc},fan,{value}",
        "frequency": "ascset|{asc},freq,{value}",
        "power_mode": "ascset|{asc},workmode,{value}",
        "reboot": "ascset|0,reboot,0",
        "enable": "ascenable|{asc}",
        "disable": "ascdisable|{asc}",
    },
    "avalon": {
        "fan": "ascset|{asc},fan-spd,{value}",
        "frequency": "ascset|{asc},frequency,{value}",
        "power_mode": "ascset|{asc},workmode,set,{value}",
        "reboot": "ascset|0,reboot,0",
        "enable": "ascset|{asc},softon,1:1",
        "disable": "ascset|{asc},softoff,1:1",
    },
}
POWER_VALUES = {LOW: 0, NORMAL: 1, HIGH: 2}
# Names of temperatures and fans in `stats` of various firmware: temp1, temp2_3, temp_chip1, fan4. Not temp_num.
_TEMPERATURE = re.compile(r"temp(_?(max|chip|pcb))?_?\d+(_\d+)?|temp_?max", re.IGNORECASE)
_FAN = re.compile(r"fan_?\d+", re.IGNORECASE)
_USER_INFO = re.compile(r"//[^/@]*@")
# A chip that is not there reports zero; a broken sensor reports nonsense.
TEMPERATURES = (1.0, 200.0)


@dataclass(frozen=True)
class CgMiner(Driver):
    api: CgMinerApi
    operations: Mapping[str, str]

    # Reading

    def read(self) -> Reading:
        summary = _first(rows(self.api.call("summary"), "SUMMARY"))
        devices = self._devices()
        statistics = self._statistics()
        temperatures = list(_temperatures(devices, statistics))
        return Reading(
            hashrate=_hashrate(summary),
            temp_max=max(temperatures, default=None),
            temp_avg=round(sum(temperatures) / len(temperatures), 1) if temperatures else None,
            power=_number(summary.get("Power")),
            fan_rpm=[int(value) for value in _named(statistics, _FAN) if value > 0],
            frequency=_number(_first(statistics).get("frequency")),
            is_hashing=any(device.get("Enabled") == "Y" for device in devices) if devices else None,
            pool=self._active_pool(),
            uptime_seconds=_whole(summary.get("Elapsed")),
        )

    def check(self) -> str:
        reply = self.api.call("version")
        version = _first(rows(reply, "VERSION"))
        described = " ".join(str(version[name]) for name in ("Type", "CGMiner", "Miner", "API") if name in version)
        try:
            self.api.call("privileged")
        except MinerRefused:
            return f"{described}: this machine may only read; allow it with --api-allow W:…"
        return described

    # Operations that all makes share

    def restart(self) -> str:
        self.api.call("restart")
        return "restart accepted"

    def select_pool(self, number: int) -> str:
        pools = {_whole(pool.get("POOL")): pool for pool in self._pools()}
        if number not in pools:
            raise MinerRefused(f"the miner has no pool {number}", 8)
        if pools[number].get("Status") == "Disabled":
            self.api.call("enablepool", str(number))
        self.api.call("switchpool", str(number))
        return f"pool {number} selected"

    def set_pool(self, pool: Pool) -> str:
        older = [number for number, found in self._numbered_pools() if _is_entry_of(found, pool)]
        self.api.call("addpool", ",".join(escaped(part) for part in (pool.url, pool.user, pool.password)))
        added = [number for number, found in self._numbered_pools() if _is_entry_of(found, pool)]
        if not added:
            raise MinerRefused("the miner accepted the pool and does not list it", 0)
        self.api.call("switchpool", str(max(added)))
        # From the last: removing a pool renumbers those after it.
        for number in sorted(older, reverse=True):
            self._remove_pool(number)
        return f"pool {_without_credentials(pool.url)} selected"

    def _remove_pool(self, number: int) -> None:
        try:
            self.api.call("disablepool", str(number))
            self.api.call("removepool", str(number))
        except MinerRefused:
            # A miner that cannot remove it mines for the new pool all the same.
            return

    # Operations with dialects

    def reboot(self) -> str:
        self._operate("reboot")
        return "reboot accepted"

    def enable(self) -> str:
        self._operate("enable")
        return "hashing enabled"

    def disable(self) -> str:
        self._operate("disable")
        return "hashing disabled"

    def set_fan(self, percent: int) -> str:
        self._operate("fan", percent)
        return f"fan {percent} %"

    def set_frequency(self, megahertz: int) -> str:
        self._operate("frequency", megahertz)
        return f"frequency {megahertz} MHz"

    def set_power_mode(self, mode: str) -> str:
        self._operate("power_mode", POWER_VALUES[mode])
        return f"power mode {mode}"

    def _operate(self, operation: str, value: object = "") -> None:
        template = self.operations.get(operation, "")
        if not template:
            raise NotSupported(f"this miner has no operation {operation}")
        numbers: Iterable[Any] = (0,)
        if "{asc}" in template:
            numbers = [device["ASC"] for device in self._devices() if "ASC" in device]
            if not numbers:
                raise MinerRefused("the miner lists no hash boards", 0)
        for number in numbers:
            command, _, parameter = template.format(asc=number, value=value).partition("|")
            self.api.call(command, parameter or None)

    def _devices(self) -> list[dict[str, Any]]:
        return rows(self.api.call("devs"), "DEVS")

    def _statistics(self) -> list[dict[str, Any]]:
        try:
            return rows(self.api.call("stats"), "STATS")
        except MinerError:
            # Some firmware has no `stats`: then the temperatures of `devs` count.
            return []

    def _pools(self) -> list[dict[str, Any]]:
        return rows(self.api.call("pools"), "POOLS")

    def _numbered_pools(self) -> list[tuple[int, dict[str, Any]]]:
        return [(number, pool) for pool in self._pools() if (number := _whole(pool.get("POOL"))) is not None]

    def _active_pool(self) -> Optional[str]:
        active = [pool for pool in self._pools() if pool.get("Stratum Active") or pool.get("Status") == "Alive"]
        # The pool with the lowest priority number is the one in use.
        active.sort(key=lambda pool: (not pool.get("Stratum Active"), _whole(pool.get("Priority")) or 0))
        return _without_credentials(str(active[0].get("URL", ""))) if active else None


def _is_entry_of(found: Mapping[str, Any], pool: Pool) -> bool:
    return found.get("URL") == pool.url and found.get("User", "") == pool.user


def _without_credentials(url: str) -> str:
    return _USER_INFO.sub("//", url)


def _hashrate(summary: Mapping[str, Any]) -> Optional[float]:
    """In TH/s, from the rate of the last seconds in whatever unit the miner uses."""
    for prefix, divisor in (("GHS", 1e3), ("MHS", 1e6), ("THS", 1.0)):
        for suffix in ("5s", "30s", "1m", "av"):
            value = _number(summary.get(f"{prefix} {suffix}"))
            if value is not None:
                return round(value / divisor, 3)
    return None


def _temperatures(devices: list[dict[str, Any]], statistics: list[dict[str, Any]]) -> Iterable[float]:
    found = [_number(device.get("Temperature")) for device in devices]
    found += _named(statistics, _TEMPERATURE)
    return (value for value in found if value is not None and TEMPERATURES[0] <= value <= TEMPERATURES[1])


def _named(statistics: list[dict[str, Any]], names: re.Pattern[str]) -> list[float]:
    found = [_number(value) for row in statistics for name, value in row.items() if names.fullmatch(name)]
    return [value for value in found if value is not None]


def _first(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of a section as one: `stats` has a first row that only names the firmware."""
    merged: dict[str, Any] = {}
    for row in found:
        merged.update(row)
    return merged


def _number(value: Any) -> Optional[float]:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    # JSON of some firmware has NaN.
    return float(value) if math.isfinite(value) else None


def _whole(value: Any) -> Optional[int]:
    found = _number(value)
    return None if found is None else int(found)
