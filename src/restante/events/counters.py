"""Counters of event polling since the start of the process, for `/metrics`.

They are changed in the event loop only, after the commit of the counted change.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class EventCounters:
    idle: int = 0
    with_events: int = 0
    acknowledge_only: int = 0
    rate_limited: int = 0
    delivered: int = 0
    acknowledged: int = 0
    errored: int = 0
