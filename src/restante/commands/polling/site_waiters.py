"""The waiter registry of sites: until when each site's queue is known to be empty, and which polls wait for it.

    unknown ──learn──▶ empty until T ──notify, or T comes──▶ unknown

All collectors of a site share its queue, so a notification wakes one waiter, not all. That waiter's claim wakes the
next one if it leaves commands behind, or if it looked in one zone only. A waiter whose last claim began after the last
notification is not woken for it again.

Times are those of the process's monotonic clock, for waiting only. Does not know databases or protocols.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from restante.delivery.waiter_registry import Keyed, WaiterRegistry

SITES_MAX = 100_000


class EmptyUntil(msgspec.Struct, frozen=True):
    """No command can be dispatched before this time; so many commands wait for a rate limit."""

    until: float
    rate_limited_count: int


class SiteWaiter(Keyed, Protocol):
    """`notification` is the site's last one when the waiter's last claim began."""

    notification: int


Waiter = TypeVar("Waiter", bound=SiteWaiter)


class SiteWaiters(WaiterRegistry[dict[int | None, EmptyUntil], Waiter]):
    """`known`: by site, then by zone, or None for the whole site."""

    def __init__(self, wake: Callable[[Waiter], None], monotonic: Callable[[], float]) -> None:
        super().__init__(wake, SITES_MAX, monotonic)
        self._notified_seconds: dict[int, float] = {}

    def empty_until(self, site_id: int, zone_id: int | None) -> EmptyUntil | None:
        """What is known of the zone or the whole site, if it still holds."""
        zones = self.known.get(site_id)
        found = None if zones is None else zones.get(zone_id)
        return found if found is not None and self._monotonic() < found.until else None

    def learn(self, site_id: int, zone_id: int | None, empty: EmptyUntil, notification: int) -> None:
        """Remember what a claim found, unless a notification came after the claim began."""
        if notification != self.last_notified(site_id):
            return
        zones = self.known.get(site_id)
        if zones is None:
            self.remember(site_id, {zone_id: empty})
        else:
            zones[zone_id] = empty

    def was_notified_within(self, site_id: int, seconds: float) -> bool:
        notified = self._notified_seconds.get(site_id)
        return notified is not None and self._monotonic() - notified < seconds

    def forget(self, site_id: int) -> None:
        super().forget(site_id)
        self._notified_seconds[site_id] = self._monotonic()

    def wake(self, site_id: int) -> bool:
        """Wake the waiter that has waited longest, unless its last claim began after the last notification."""
        first = self.first_waiter(site_id)
        if first is None or first.notification == self.last_notified(site_id):
            return False
        self.leave(first)
        self._wake(first)
        return True

    def _invalidate_reads(self) -> None:
        super()._invalidate_reads()
        self._notified_seconds.clear()
