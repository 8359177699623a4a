"""The local safety override: what the collector does to a miner that is too hot, without waiting for the server.

    temperature at `reboot_celsius` or above   reboot the miner
    temperature at `disable_celsius` or above  stop hashing

It is off unless it is configured. After an action on a miner the same action waits for its cooldown, also after a
restart of the program. Nothing is switched on again: a person or a rule of the server does that.

The safety event is in the spool before the action: an action is never without its event. If the action fails, a second
event says so, and the next reading tries again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Callable, Optional

from msgspec import Meta

from restante_client.agent.collector.drivers import MinerError, NotSupported, Reading
from restante_client.agent.collector.inventory import Miner
from restante_client.agent.config import Section
from restante_client.agent.logs import Log
from restante_client.state import StateFolder

ACTION = "THERMAL_SHUTDOWN"
DISABLE, REBOOT = "disable", "reboot"


class SafetyConfig(Section, frozen=True, kw_only=True):
    """The table `[safety]`."""

    enabled: Annotated[bool, Meta(description="Whether the collector acts on its own.")] = False
    disable_celsius: Annotated[
        float, Meta(ge=30, le=150, description="Stop hashing at this temperature of the hottest chip.")
    ] = 85.0
    reboot_celsius: Annotated[float, Meta(ge=30, le=150, description="Reboot the miner at this temperature.")] = 95.0
    disable_cooldown_seconds: Annotated[
        float, Meta(ge=0, le=86_400, description="The least time between two times that a miner is disabled.")
    ] = 300.0
    reboot_cooldown_seconds: Annotated[
        float, Meta(ge=0, le=86_400, description="The least time between two reboots of a miner.")
    ] = 1800.0


Report = Callable[[Sequence[dict[str, Any]]], None]


class SafetyOverride:
    def __init__(self, config: SafetyConfig, state: StateFolder, report: Report, log: Log) -> None:
        self._config = config
        self._state = state
        self._report = report
        self._log = log

    def check(self, miner: Miner, reading: Reading) -> Optional[str]:
        """Act if the reading demands it. The caller holds the miner's lock. Return the action."""
        action = self._action(miner, reading)
        if action is None:
            return None
        limit = self._config.reboot_celsius if action == REBOOT else self._config.disable_celsius
        reason = f"{reading.temp_max:g} °C, limit {limit:g} °C"
        self._set_acted(miner, action)
        self._add_event(miner, reading, f"{reason}: the collector sends {action}")
        self._log.warning("safety action", miner_id=miner.id, action=action, temp_max=reading.temp_max)
        try:
            self._act(miner, action)
        except MinerError as error:
            self._forget(miner, action)
            self._add_event(miner, reading, f"{reason}: {action} failed: {error}")
            self._log.error("safety action failed", miner_id=miner.id, action=action, error=error)
        return action

    def _action(self, miner: Miner, reading: Reading) -> Optional[str]:
        config, temperature = self._config, reading.temp_max
        if not config.enabled or temperature is None:
            return None
        if temperature >= config.reboot_celsius and self._is_due(miner, REBOOT, config.reboot_cooldown_seconds):
            return REBOOT
        is_hot = temperature >= config.disable_celsius and reading.is_hashing is not False
        if is_hot and self._is_due(miner, DISABLE, config.disable_cooldown_seconds):
            return DISABLE
        return None

    @staticmethod
    def _act(miner: Miner, action: str) -> None:
        if action == DISABLE:
            miner.driver.disable()
            return
        try:
            miner.driver.reboot()
        except NotSupported:
            # The make has no reboot: without hashing it cools down, too.
            miner.driver.disable()

    def _add_event(self, miner: Miner, reading: Reading, reason: str) -> None:
        # With microseconds: the server takes two events of the same time for one.
        ts = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        event = {"miner_id": miner.id, "action": ACTION, "ts": ts, "reason": reason, "temp_max": reading.temp_max}
        self._report([{**event, "snapshot_json": reading.measurements()}])

    def _is_due(self, miner: Miner, action: str, cooldown_seconds: float) -> bool:
        found = self._state.read(self._entry(miner, action))
        if found is None:
            return True
        since = time.time() - float(found)
        # A clock that was set back must not lengthen the cooldown.
        return not 0 <= since < cooldown_seconds

    def _set_acted(self, miner: Miner, action: str) -> None:
        self._state.write(self._entry(miner, action), str(time.time()).encode())

    def _forget(self, miner: Miner, action: str) -> None:
        self._state.write(self._entry(miner, action), b"0")

    @staticmethod
    def _entry(miner: Miner, action: str) -> str:
        return f"safety {action} {miner.id}"
