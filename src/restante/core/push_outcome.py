"""What a receiver's answer to a pushed event means: is it delivered, is it this event's trouble, or the receiver's.

    202                              delivered: acknowledged, as if by polling
    400, 413, 415, 422               refused: the receiver lives and does not want this event; it waits, others go on
    anything else, or no answer      failed: the receiver as a whole waits, so that its events stay in their order

Also the circuit: after so many failures in a row it is open, and one event at a time tries whether the receiver is
back. Decides only; time and chance are arguments.
"""

from dataclasses import dataclass, field
from typing import Literal

from restante.core.backoff import Backoff

Meaning = Literal["delivered", "refused", "failed"]
Circuit = Literal["closed", "open"]

DELIVERED_STATUS = 202
# About what was sent, and not about who was asked.
REFUSING_STATUSES = frozenset([400, 413, 415, 422])


def meaning_of(status: int | None) -> Meaning:
    """What came of it; None: there was no answer."""
    if status == DELIVERED_STATUS:
        return "delivered"
    return "refused" if status in REFUSING_STATUSES else "failed"


@dataclass(frozen=True, slots=True)
class PushRules:
    """How long an event is tried, and how a receiver that fails is spared.

    Whatever failed and is older than `give_up_seconds` is left to polling, however few its tries were.
    """

    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 900.0, 20))
    give_up_seconds: float = 86_400.0
    circuit_failures: int = 5
    circuit_seconds: float = 30.0
    # Of each wait up to this part is left to chance, so that receivers that failed together are not asked together.
    jitter: float = 0.2

    def circuit(self, failures: int) -> Circuit:
        return "open" if failures >= self.circuit_failures else "closed"

    def wait_seconds(self, failures: int, chance: float) -> float:
        """Until the receiver is asked again, after so many failures in a row; `chance` is from 0 to 1."""
        wait = min(self.backoff.max_seconds, self.backoff.base_seconds * 2.0 ** min(max(failures - 1, 0), 60))
        if self.circuit(failures) == "open":
            wait = max(wait, self.circuit_seconds)
        return wait * (1.0 + self.jitter * chance)

    def is_over(self, attempts: int) -> bool:
        """Whether the event was tried often enough, and is left to polling."""
        return attempts >= self.backoff.attempts_max
