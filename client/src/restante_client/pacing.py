"""When to call again: back-off after failures, and the interval of an idle device.

Full jitter (a random share of a bound that doubles) spreads a fleet that lost its server at the same moment.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

IDLE_STEPS_SECONDS = (300.0, 900.0, 3600.0, 21_600.0, 86_400.0)
# At an interval of at most this length, a device waits inside the poll: that costs no more requests than a pause.
LONG_POLL_FROM_SECONDS = 30.0
LONG_POLL_WAIT_SECONDS = 25


class Backoff:
    """The wait after consecutive failures: between zero and a bound that doubles."""

    def __init__(self, base_seconds: float = 1.0, max_seconds: float = 300.0, rng: random.Random | None = None) -> None:
        self._base_seconds = base_seconds
        self._max_seconds = max_seconds
        self._random = rng or random.SystemRandom()
        self.failures = 0

    def failed(self, retry_after_seconds: float | None = None) -> float:
        """Count a failure and return the wait. The server's `Retry-After` is the least."""
        bound = min(self._max_seconds, self._base_seconds * 2.0 ** min(self.failures, 32))
        self.failures += 1
        jitter = self._random.uniform(0, bound)
        return jitter if retry_after_seconds is None else retry_after_seconds + min(jitter, self._base_seconds)

    def succeeded(self) -> None:
        self.failures = 0


@dataclass(frozen=True)
class NextPoll:
    """How long to wait before the next poll, and how long that poll may be held."""

    pause_seconds: float
    wait_seconds: int


class PollPacing:
    """The pause between the polls of one device.

    The server's `X-Poll-Interval` sets the pause. If the server sends none, or if `is_adaptive` is set, each idle poll
    lengthens the pause by one step; a signal resets it. While the interval is short, or until `expect_until`, the
    device waits inside the poll instead of between polls.
    """

    def __init__(self, *, is_adaptive: bool = False, idle_steps_seconds: Sequence[float] = IDLE_STEPS_SECONDS) -> None:
        self._is_adaptive = is_adaptive
        self._idle_steps_seconds = tuple(idle_steps_seconds)
        self._idle_polls = 0
        self._expected_until = 0.0

    def expect_until(self, monotonic_seconds: float) -> None:
        self._expected_until = monotonic_seconds

    def after_signals(self) -> NextPoll:
        """There may be more signals: poll again at once."""
        self._idle_polls = 0
        return NextPoll(0.0, 0)

    def after_idle(self, interval_seconds: float | None, now_seconds: float) -> NextPoll:
        step = self._idle_steps_seconds[min(self._idle_polls, len(self._idle_steps_seconds) - 1)]
        self._idle_polls += 1
        if now_seconds < self._expected_until:
            return NextPoll(0.0, LONG_POLL_WAIT_SECONDS)
        if interval_seconds is None:
            return NextPoll(step, 0)
        if interval_seconds <= LONG_POLL_FROM_SECONDS:
            return NextPoll(0.0, max(1, min(LONG_POLL_WAIT_SECONDS, int(interval_seconds))))
        return NextPoll(max(step, interval_seconds) if self._is_adaptive else interval_seconds, 0)
