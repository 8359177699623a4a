"""How soon to look again where nobody says when there is something to be found: soon after there was, ever later while
there is nothing, and ever later while nobody can be asked. Pure arithmetic; chance is an argument.

Every wait is shortened a little by chance, so that those who began to wait together do not go on together.
"""

from dataclasses import dataclass

CHANCE_PART = 0.25
IDLE_SECONDS = 0.05
AWAY_SECONDS = 0.5
AWAY_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits that double from the first to the last, while nothing is found and while asking fails."""

    idle_seconds: float = IDLE_SECONDS
    idle_seconds_max: float = 5.0
    away_seconds: float = AWAY_SECONDS
    away_seconds_max: float = AWAY_SECONDS_MAX

    def after_nothing(self, looks: int, chance: float) -> float:
        """After nothing was found so many times in a row; `chance` is in [0, 1)."""
        return _grown(self.idle_seconds, self.idle_seconds_max, looks, chance)

    def after_failure(self, failures: int, chance: float) -> float:
        """After so many failures in a row."""
        return _grown(self.away_seconds, self.away_seconds_max, failures, chance)


def _grown(first_seconds: float, seconds_max: float, count: int, chance: float) -> float:
    # The exponent is bounded before it is used: 2.0 ** 5000 would overflow.
    whole: float = min(seconds_max, first_seconds * 2.0 ** min(max(count - 1, 0), 60))
    return whole * (1.0 - CHANCE_PART * chance)
