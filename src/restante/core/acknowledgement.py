"""What a poll says of the events it had, and how many of those that wait fit into its answer.

Decides from ids and sizes alone. Knows nothing of clients, databases or tokens. Must always hold: an event that is
called both acknowledged and wrong is wrong; where anything waits and anything is wanted, the answer is not empty, and
what it holds is the oldest.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Fault(NamedTuple):
    """Why a client could not use an event."""

    err: str
    description: str


class Verdicts(NamedTuple):
    acknowledged: list[str]
    errored: dict[str, Fault]

    def __bool__(self) -> bool:
        return bool(self.acknowledged or self.errored)


NO_VERDICTS = Verdicts([], {})


def verdicts_of(ack: Iterable[str], set_errs: Mapping[str, Fault]) -> Verdicts:
    """What is said of each event, once."""
    # In one order for everybody: two calls that lock the same events do not wait for each other.
    return Verdicts(sorted(set(ack) - set_errs.keys()), dict(sorted(set_errs.items())))


def events_wanted(max_events: int | None, cap: int) -> int:
    """How many events a poll is handed at most. Zero is none; absent, or more than the cap, is the cap."""
    return cap if max_events is None else min(max_events, cap)


def how_many_fit(sizes: Sequence[int], wanted: int, bytes_max: int) -> int:
    """How many of the events, from the first, go into an answer of so many bytes. One that is too large goes alone."""
    total = 0
    for count, size in enumerate(sizes[:wanted]):
        total += size
        if total > bytes_max and count:
            return count
    return min(wanted, len(sizes))


def ready_before_unsigned(statuses: Collection[str]) -> int:
    """How many may be handed out, from the first: none overtakes one that is still to be signed."""
    for count, status in enumerate(statuses):
        if status == "unsigned":
            return count
    return len(statuses)
