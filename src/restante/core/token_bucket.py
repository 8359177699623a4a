"""Token buckets, one number each.

A bucket is kept as the moment at which it will be full again (the virtual scheduling form of a token bucket), so a
recipient costs one float, and one whose moment has passed can be forgotten: an absent bucket is a full one.
Time is an argument, in seconds of any monotonic clock.
"""


class TokenBuckets:
    def __init__(self, rate_per_second: float, burst: int, recipients_max: int = 2_000_000) -> None:
        self._interval = 1.0 / rate_per_second
        self._depth = burst * self._interval
        # A thousandth of a token: keeps rounding, which grows with the clock, from refusing the last of a burst.
        self._tolerance = 0.001 * self._interval
        self._recipients_max = recipients_max
        self._forget_at = recipients_max
        self._full_at: dict[int, float] = {}

    def take(self, recipient: int, now: float) -> float:
        """Take one token: 0.0 if there was one, else the seconds until there is (and nothing is taken)."""
        full_at = self._full_at.get(recipient, now)
        if full_at < now:
            full_at = now
        after = full_at + self._interval
        wait = after - now - self._depth
        if wait > self._tolerance:
            return wait
        if len(self._full_at) >= self._forget_at and recipient not in self._full_at:
            self.forget_full(now)
            # Where few are full, the next walk over all comes only when they have doubled.
            self._forget_at = max(self._recipients_max, 2 * len(self._full_at))
        self._full_at[recipient] = after
        return 0.0

    def wait(self, recipient: int, now: float) -> float:
        """The seconds until there is a token to take, 0.0 if there is one; nothing is taken."""
        wait = max(self._full_at.get(recipient, now), now) + self._interval - now - self._depth
        return wait if wait > self._tolerance else 0.0

    def forget_full(self, now: float) -> None:
        """Drop every bucket that is full again; the answers do not change by it."""
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}

    def __len__(self) -> int:
        return len(self._full_at)
