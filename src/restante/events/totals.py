"""What this protocol has done since the start, in plain numbers: `/metrics` reads them when somebody asks.

Counted in the event loop only, after the commit that makes it true.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class EventTotals:
    idle: int = 0
    with_events: int = 0
    acknowledge_only: int = 0
    rate_limited: int = 0
    delivered: int = 0
    acknowledged: int = 0
    errored: int = 0
