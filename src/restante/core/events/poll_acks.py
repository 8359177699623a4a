"""Decides what a poll acknowledges or rejects, and how many waiting events fit into its response.

The decisions use ids and sizes alone; the module does not know about clients, databases or tokens.

Invariants:
- An event that a poll lists both as acknowledged and as errored is errored.
- If events wait and the poll accepts at least one, the response is not empty and holds the oldest events.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Fault(NamedTuple):
    """Why a client could not use an event."""

    err: str
    description: str


class Verdicts(NamedTuple):
    """The result of each earlier event, as the client reports it."""

    acknowledged: list[str]
    errored: dict[str, Fault]

    def __bool__(self) -> bool:
        return bool(self.acknowledged or self.errored)


NO_VERDICTS = Verdicts([], {})


def verdicts_of(ack: Iterable[str], set_errs: Mapping[str, Fault]) -> Verdicts:
    """Merge both lists so that each event has one verdict."""
    # Sorted: two polls that lock the same events lock them in the same order and cannot deadlock.
    return Verdicts(sorted(set(ack) - set_errs.keys()), dict(sorted(set_errs.items())))


def event_limit(max_events: int | None, cap: int) -> int:
    """Return the most events a poll may receive. Zero means none; no value, or more than the cap, means the cap."""
    return cap if max_events is None else min(max_events, cap)


def count_fitting(sizes: Sequence[int], limit: int, bytes_max: int) -> int:
    """Return how many leading events fit into a response of `bytes_max`. An oversized event is sent alone."""
    total = 0
    for count, size in enumerate(sizes[:limit]):
        total += size
        if total > bytes_max and count:
            return count
    return min(limit, len(sizes))


def count_before_unsigned(statuses: Collection[str]) -> int:
    """Return how many leading events may be delivered: no event overtakes an unsigned one."""
    for count, status in enumerate(statuses):
        if status == "unsigned":
            return count
    return len(statuses)
