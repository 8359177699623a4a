"""Budgets of collectors: how much each may send before it gets 429 with Retry-After.

    bytes      snapshots of ACKs, and safety events: they are stored and never deleted
    telemetry  its storage is bounded by the ring buffers; the budget bounds the work
    repeats    refused ACKs and repeated `running`: they change nothing, but each is a write

A budget is a token bucket in the memory of a node. A report is accepted while the budget is not used up, whatever its
size, and then counted as a whole. An ACK without snapshots that ends a lease costs nothing, so a collector that works
as it should is never stopped from acknowledging.

Nodes and workers share the budgets of collectors that use much, every few seconds:

    node: spent since the last time, if the bucket is an eighth empty ─▶ row: full again at … ─▶ node: the later time

No report waits for that, and a collector that uses little never causes a write. Whatever a collector spends at any node
is paid back at every node where it goes on, so its average over time is that of one budget. See budget_sharing.py.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from restante.commands.counters import CommandCounters
from restante.core.errors import TooManyRequests
from restante.core.token_bucket import TokenBuckets

BudgetName = Literal["bytes", "telemetry", "repeats"]


# A collector that has used this part of a budget at a node (one eighth) is shared with the other nodes.
SHARED_PART = 8


class Spent(NamedTuple):
    """What a collector has spent of a budget, as the time in which it is paid back."""

    device_id: int
    budget: BudgetName
    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """0 means no limit."""

    bytes_per_hour: int = 0
    telemetry_bytes_per_minute: int = 0
    repeats_per_minute: int = 0


class CollectorBudgets:
    def __init__(
        self, options: BudgetOptions, counters: CommandCounters, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters = counters
        self._monotonic = monotonic
        self._bytes = _Budget("bytes", f"{options.bytes_per_hour} bytes an hour", options.bytes_per_hour, 3600)
        telemetry_bytes = options.telemetry_bytes_per_minute
        self._telemetry = _Budget("telemetry", f"{telemetry_bytes} bytes of telemetry a minute", telemetry_bytes, 60)
        repeats = options.repeats_per_minute
        self._repeats = _Budget("repeats", f"{repeats} refused or repeated ACKs a minute", repeats, 60)
        self._by_name = {budget.name: budget for budget in (self._bytes, self._telemetry, self._repeats)}

    def admit_ack(self, device_id: int, snapshot_bytes: int) -> None:
        """Raise TooManyRequests if the collector may not send an ACK now."""
        if self._repeats.is_touched:
            self._check(self._repeats, device_id)
        if snapshot_bytes:
            self._spend(self._bytes, device_id, snapshot_bytes)

    def count_repeat(self, device_id: int) -> None:
        """Count an ACK that was refused, or that repeated `running`."""
        self._repeats.spend(device_id, self._monotonic(), 1)

    def admit_safety_events(self, device_id: int, size: int) -> None:
        """Raise TooManyRequests if the collector may not report safety events now."""
        self._spend(self._bytes, device_id, size)

    def admit_telemetry(self, device_id: int, size: int) -> None:
        """Raise TooManyRequests if the collector may not report telemetry now."""
        self._spend(self._telemetry, device_id, size)

    def take_unshared(self) -> list[Spent]:
        """What collectors that use much have spent since the last call."""
        now = self._monotonic()
        return [spent for budget in self._by_name.values() for spent in budget.take_unshared(now)]

    def put_back(self, unshared: Iterable[Spent]) -> None:
        """It could not be shared, and is to be taken again."""
        for spent in unshared:
            self._by_name[spent.budget].put_back(spent)

    def apply_shared(self, device_id: int, budget: BudgetName, seconds: float) -> None:
        """All nodes together have spent so much that the budget is full again in so many seconds."""
        self._by_name[budget].raise_full_at(device_id, self._monotonic() + seconds)

    def _spend(self, budget: "_Budget", device_id: int, amount: int) -> None:
        self._check(budget, device_id)
        budget.spend(device_id, self._monotonic(), amount)

    def _check(self, budget: "_Budget", device_id: int) -> None:
        wait = budget.wait(device_id, self._monotonic())
        if wait > 0:
            self._counters.over_budget.add(budget.name)
            message = f"this collector has used its budget of {budget.size}"
            raise TooManyRequests(message, retry_after_seconds=math.ceil(wait))


class _Budget:
    def __init__(self, name: BudgetName, size: str, amount: int, seconds: int) -> None:
        self.name = name
        self.size = size
        self._shared_from = amount / SHARED_PART
        self._seconds_per_token = seconds / amount if amount else 0.0
        self._buckets = TokenBuckets(amount / seconds, amount) if amount else None
        # What each collector has spent since it was last shared.
        self._unshared: dict[int, float] = {}

    @property
    def is_touched(self) -> bool:
        """Whether any collector has used of it lately: without this check every ACK would read the clock."""
        return bool(self._buckets)

    def wait(self, device_id: int, now: float) -> float:
        return 0.0 if self._buckets is None else self._buckets.wait(device_id, now)

    def spend(self, device_id: int, now: float, amount: int) -> None:
        if self._buckets is not None:
            self._buckets.spend(device_id, now, amount)
            self._unshared[device_id] = self._unshared.get(device_id, 0) + amount

    def take_unshared(self, now: float) -> list[Spent]:
        """What collectors that use much have spent and not shared yet. Drops those whose bucket is full."""
        if self._buckets is None:
            return []
        spent = []
        for device_id, amount in list(self._unshared.items()):
            used = self._buckets.used(device_id, now)
            if used == 0.0:
                del self._unshared[device_id]
            elif used >= self._shared_from:
                del self._unshared[device_id]
                # What was paid back meanwhile does not count.
                spent.append(Spent(device_id, self.name, min(amount, used) * self._seconds_per_token))
        return spent

    def put_back(self, spent: Spent) -> None:
        self._unshared[spent.device_id] = (
            self._unshared.get(spent.device_id, 0) + spent.seconds / self._seconds_per_token
        )

    def raise_full_at(self, device_id: int, full_at: float) -> None:
        if self._buckets is not None:
            self._buckets.raise_full_at(device_id, full_at)
