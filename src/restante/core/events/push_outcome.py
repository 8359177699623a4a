"""Decides what a receiver's response to a pushed event means, and when to try again.

    202                              delivered: the event is acknowledged, as if by polling
    400, 413, 415, 422               refused: the receiver works and rejects this event; the event waits, others go on
    any other status, or none        failed: the whole receiver waits, so that its events stay in order

A circuit breaker opens after `circuit_failures` failures in a row; then one event at a time probes the receiver.
Time and randomness are arguments.
"""

from dataclasses import dataclass
from typing import Literal

from restante.core.backoff import Backoff

PushOutcome = Literal["delivered", "refused", "failed"]
CircuitState = Literal["closed", "open"]

DELIVERED_STATUS = 202
# These statuses reject the content, not the caller.
REFUSED_STATUSES = frozenset([400, 413, 415, 422])


@dataclass(frozen=True, slots=True)
class PushResult:
    """The response of a receiver; without a status there was none, and `problem` says why."""

    status: int | None
    problem: str | None = None
    body: bytes = b""


def push_outcome(status: int | None) -> PushOutcome:
    """Classify the status of a response; None means that there was no response."""
    if status == DELIVERED_STATUS:
        return "delivered"
    return "refused" if status in REFUSED_STATUSES else "failed"


@dataclass(frozen=True, slots=True)
class PushRules:
    """How often an event is pushed, and how long a failing receiver is left alone.

    A failed event older than `give_up_seconds` is left to polling, whatever its number of attempts.
    """

    backoff: Backoff
    give_up_seconds: float
    circuit_failures: int
    circuit_seconds: float
    # Each wait grows by up to this random fraction, so that receivers that failed together are not retried together.
    jitter: float = 0.2

    def circuit_state(self, failures: int) -> CircuitState:
        return "open" if failures >= self.circuit_failures else "closed"

    def wait_seconds(self, failures: int, chance: float) -> float:
        """Return the wait before the next attempt after `failures` in a row; `chance` is random, from 0 to 1."""
        wait = min(self.backoff.max_seconds, self.backoff.base_seconds * 2.0 ** min(max(failures - 1, 0), 60))
        if self.circuit_state(failures) == "open":
            wait = max(wait, self.circuit_seconds)
        return wait * (1.0 + self.jitter * chance)

    def is_exhausted(self, attempts: int) -> bool:
        """Return whether the event has used all its attempts and is left to polling."""
        return attempts >= self.backoff.attempts_max
