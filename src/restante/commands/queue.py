"""The queue of a site: in which order its commands are handed out, and the news that something may be waiting in it.

One number, `rank`, orders a queue: the moment a command was made, less what its priority is worth. The lower is
handed out first. With ageing, a priority point is worth a fixed time of waiting, so that a command of low
priority overtakes a newer one of high priority once it has waited longer by more than that; without, priority alone
counts, then age.
"""

from typing import NamedTuple

PRIORITY_MAX = 1000
# What is locked by whoever decides about a site: its commands, windows, rules, telemetry and its chain of the audit
# trail. Nothing else is waited for by who holds it, but chain 0.
SITE_LOCK = "site"
# Without ageing a point is worth more than any two commands can lie apart: three centuries.
_BEYOND_AGE_MS = 10**13


class CommandsChanged(NamedTuple):
    """Announced by every commit that may make a command of the site available."""

    site_id: int


def rank_of(created_at_ms: int, priority: int, ageing_seconds: int) -> int:
    """`ageing_seconds`: how much waiting a priority point is worth; 0 switches ageing off."""
    return created_at_ms - priority * (ageing_seconds * 1000 or _BEYOND_AGE_MS)
