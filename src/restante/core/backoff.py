"""How long to wait before trying again. Pure arithmetic; time and chance are arguments."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling delays from `base_seconds`, bounded by `max_seconds`, given up after `attempts_max` tries."""

    base_seconds: float = 1.0
    max_seconds: float = 300.0
    attempts_max: int = 10

    def delay_seconds(self, attempts: int) -> float | None:
        """The wait after the given number of failed attempts; None when there is to be no further one."""
        if attempts >= self.attempts_max:
            return None
        # The exponent is bounded before it is used: 2.0 ** 5000 would overflow.
        return float(min(self.max_seconds, self.base_seconds * 2.0 ** min(max(attempts - 1, 0), 60)))
