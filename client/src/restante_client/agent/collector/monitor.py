"""Reading the miners on a schedule: safety checks on every reading, telemetry every so often.

    every sample_seconds:  read all miners ─▶ safety override
    every telemetry_seconds: the newest readings ─▶ spool

A miner that a command is using is left out of a round. A miner that does not answer is logged once, and once when it
answers again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional

from restante_client.agent import times
from restante_client.agent.collector.drivers import MinerError, Reading
from restante_client.agent.collector.inventory import Inventory, Miner
from restante_client.agent.collector.safety import SafetyOverride
from restante_client.agent.logs import Log

PARALLEL_MINERS = 16

AddTelemetry = Callable[[Sequence[dict[str, Any]]], None]


class Monitor:
    def __init__(self, inventory: Inventory, safety: SafetyOverride, add_telemetry: AddTelemetry, log: Log) -> None:
        self._inventory = inventory
        self._safety = safety
        self._add_telemetry = add_telemetry
        self._log = log
        self._silent: set[int] = set()

    def run(self, stop: threading.Event, sample_seconds: float, telemetry_seconds: float) -> None:
        """Work until `stop` is set. The pace is that of the clock: a slow round shortens the next pause."""
        next_telemetry = next_round = time.monotonic()
        while not stop.is_set():
            now = time.monotonic()
            records = self.read_all()
            if records and now >= next_telemetry:
                self._add_telemetry(records)
                next_telemetry = max(next_telemetry + telemetry_seconds, now)
            next_round = max(next_round + sample_seconds, now)
            stop.wait(max(0.0, next_round - time.monotonic()))

    def read_all(self) -> list[dict[str, Any]]:
        """Read every miner that is free, check its safety, and return the telemetry records."""
        if not self._inventory:
            return []
        with ThreadPoolExecutor(min(PARALLEL_MINERS, len(self._inventory)), "monitor") as threads:
            found = threads.map(self._read, self._inventory.values())
            return [record for record in found if record is not None]

    def _read(self, miner: Miner) -> Optional[dict[str, Any]]:
        if not miner.lock.acquire(blocking=False):
            return None
        try:
            ts = times.now()
            reading = miner.driver.read()
            self._set_answering(miner, reading)
            self._safety.check(miner, reading)
            return {"miner_id": miner.id, "ts": ts, **reading.measurements()}
        except MinerError as error:
            self._set_silent(miner, error)
            return None
        finally:
            miner.lock.release()

    def _set_answering(self, miner: Miner, reading: Reading) -> None:
        if miner.id in self._silent:
            self._silent.discard(miner.id)
            self._log.info("miner answers again", miner_id=miner.id, temp_max=reading.temp_max)

    def _set_silent(self, miner: Miner, error: MinerError) -> None:
        if miner.id not in self._silent:
            self._silent.add(miner.id)
            self._log.warning("miner does not answer", miner_id=miner.id, address=miner.address, reason=str(error))
