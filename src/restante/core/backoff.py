"""Doubling delays: how long to wait before the next attempt (`Backoff`) or the next poll (`PollBackoff`).

Pure arithmetic: time and chance are arguments.
"""

from dataclasses import dataclass

JITTER = 0.25
RETRY_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between the attempts of one task, from `base_seconds` to `max_seconds`, for at most `attempts_max`."""

    base_seconds: float
    max_seconds: float
    attempts_max: int

    def delay_seconds(self, attempts: int) -> float | None:
        """The delay after this many failed attempts; None if there must be no further one."""
        return None if attempts >= self.attempts_max else _doubled(self.base_seconds, self.max_seconds, attempts)


@dataclass(frozen=True, slots=True)
class PollBackoff:
    """Delays between the polls of a source that does not notify: short after a poll that found something.

    Two delays double: one while polls find nothing, one while they fail. Every delay is shortened a little by chance,
    so that pollers that started together do not stay together.
    """

    idle_seconds: float = 0.05
    idle_seconds_max: float = 5.0
    retry_seconds: float = 0.5
    retry_seconds_max: float = RETRY_SECONDS_MAX

    def after_empty(self, empty_polls: int, chance: float) -> float:
        """The delay after this many empty polls in a row; `chance` is in [0, 1)."""
        return _doubled(self.idle_seconds, self.idle_seconds_max, empty_polls) * (1.0 - JITTER * chance)

    def after_failure(self, failures: int, chance: float) -> float:
        """The delay after this many failed polls in a row."""
        return _doubled(self.retry_seconds, self.retry_seconds_max, failures) * (1.0 - JITTER * chance)


def _doubled(first_seconds: float, seconds_max: float, count: int) -> float:
    # The exponent is bounded: 2.0 ** 5000 would overflow.
    return float(min(seconds_max, first_seconds * 2.0 ** min(max(count - 1, 0), 60)))
