"""The order of a site's queue, its lock, and the commit event of its changes.

One number, `rank`, orders a queue: the creation time of a command minus the worth of its priority. The lowest rank is
dispatched first. With ageing, a priority point is worth a fixed waiting time: a command of low priority overtakes a
newer one of high priority once it has waited longer by more than that. Without ageing, priority decides, then age.
"""

from restante.database.commit_events import ClusterMessage

PRIORITY_MAX = 1000
# The lock that protects a site's commands, rate windows, rules, telemetry and audit chain. Its holder waits for no
# other lock, except that of audit chain 0.
SITE_LOCK = "site"
# Without ageing a priority point is worth more than any difference in age: three centuries.
_BEYOND_AGE_MS = 10**13


class CommandsChanged(ClusterMessage, frozen=True, tag="site"):
    """A command of the site may be available now.

    `to` names the node that serves the change; "" leaves it to the nodes that have a collector waiting.
    """

    site_id: int
    to: str = ""


def rank_of(created_at_ms: int, priority: int, ageing_seconds: int) -> int:
    """`ageing_seconds`: the waiting time that a priority point is worth; 0 switches ageing off."""
    return created_at_ms - priority * (ageing_seconds * 1000 or _BEYOND_AGE_MS)
