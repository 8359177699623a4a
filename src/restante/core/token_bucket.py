"""Token buckets that store one number each.

A bucket is stored as the time at which it will be full again (the virtual scheduling form of a token bucket). A
recipient therefore costs one float, and a bucket whose time has passed can be dropped: a missing bucket is a full one.
Time is an argument, in seconds of any monotonic clock.
"""


class TokenBuckets:
    def __init__(self, rate_per_second: float, burst: int, recipients_max: int = 2_000_000) -> None:
        self._interval = 1.0 / rate_per_second
        self._depth = burst * self._interval
        # A thousandth of a token: rounding errors grow with the clock, and must not refuse the last token of a burst.
        self._tolerance = 0.001 * self._interval
        self._recipients_max = recipients_max
        self._forget_at = recipients_max
        self._full_at: dict[int, float] = {}

    def acquire(self, recipient: int, now: float) -> float:
        """Acquire a token and return 0.0; if there is none, return the seconds until there is one."""
        full_at = self._full_at.get(recipient, now)
        if full_at < now:
            full_at = now
        after = full_at + self._interval
        wait = after - now - self._depth
        if wait > self._tolerance:
            return wait
        if len(self._full_at) >= self._forget_at and recipient not in self._full_at:
            self.forget_full(now)
            # If few were full, the next pass over all buckets comes only when their number has doubled.
            self._forget_at = max(self._recipients_max, 2 * len(self._full_at))
        self._full_at[recipient] = after
        return 0.0

    def wait(self, recipient: int, now: float) -> float:
        """The seconds until there is a token; 0.0 if there is one. Acquires nothing."""
        wait = max(self._full_at.get(recipient, now), now) + self._interval - now - self._depth
        return wait if wait > self._tolerance else 0.0

    def spend(self, recipient: int, now: float, tokens: int) -> None:
        """Take tokens, also more than there are: then `wait` grows until they are paid back."""
        if len(self._full_at) >= self._forget_at:
            self.forget_full(now)
            self._forget_at = max(self._recipients_max, 2 * len(self._full_at))
        self._full_at[recipient] = max(self._full_at.get(recipient, now), now) + tokens * self._interval

    def used(self, recipient: int, now: float) -> float:
        """How many tokens are missing from a full bucket; more than it holds while some are to be paid back."""
        return max(0.0, self._full_at.get(recipient, now) - now) / self._interval

    def raise_full_at(self, recipient: int, full_at: float) -> None:
        """The bucket is full at this time, or later: others have taken tokens, too."""
        self._full_at[recipient] = max(self._full_at.get(recipient, full_at), full_at)

    def forget_full(self, now: float) -> None:
        """Drop every bucket that is full again. No result changes by it."""
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}

    def __len__(self) -> int:
        return len(self._full_at)
