"""The site waiters of one node among others: which node wakes a collector when a site's queue has changed.

    commit here      ─▶ a waiter is parked here: wake it, and publish that this node serves the change
                     ─▶ none is: choose one of the nodes that have published that they have waiters
    chosen           ─▶ wake one; if its claim leaves commands behind and no waiter is left here, choose the next node
    served           ─▶ the other nodes need not claim
    a due time comes ─▶ every node knows it: the first in an order of the site's own claims and publishes that it does,
                        the others follow a little later each, unless they have received that message

Each node publishes once that it has waiters at a site. When it is chosen and has none left, it publishes that, too.
What nodes know of each other may be out of date: then two nodes claim where one would do, or none does. So a node with
waiters claims two seconds after a change, unless it has received the message that the change was served.

Invariant: a change makes every node drop its knowledge of the site, whichever node claims.

Runs in the event loop's thread only and does no I/O: messages go to `send`. Does not know databases.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from zlib import crc32

from restante.commands.polling.queue_versions import QueueVersions
from restante.commands.polling.site_waiters import SITES_MAX, SiteWaiters, Waiter
from restante.database.commit_events import ClusterMessage
from restante.delivery.waiter_registry import NEVER

SERVED_WITHIN_SECONDS = 2.0
# How much later than the node before it a node claims at a due time: longer than a message takes to arrive.
FOLLOW_SECONDS = 0.1
# A due time known here and one that another node publishes are the same if they are no further apart.
SAME_DUE_TIME_SECONDS = 0.5
SITES_AT_ONCE = 500
# The number of a change that no commit has caused, lower than any other.
NO_COMMIT = 0


class ServeSite(ClusterMessage, frozen=True, tag="ring"):
    """The node `to` is to serve a change; the nodes in `tried` could not serve all of it."""

    site_id: int
    commit_id: int
    to: str
    tried: tuple[str, ...]


class SiteServed(ClusterMessage, frozen=True, tag="served"):
    """No command was left; the queue's next due time comes in so many seconds."""

    site_id: int
    commit_id: int
    again_seconds: float | None = None


class SiteDue(ClusterMessage, frozen=True, tag="moment"):
    """The due time that is known for the site has come, and the sender runs a claim."""

    site_id: int


class SitesWaiting(ClusterMessage, frozen=True, tag="waiting"):
    """The sender has waiters at these sites."""

    site_ids: tuple[int, ...]


class SitesLeft(ClusterMessage, frozen=True, tag="left"):
    """The sender has no waiters any more at these sites."""

    site_ids: tuple[int, ...]


class ReportWaiters(ClusterMessage, frozen=True, tag="who"):
    """A request to every node: publish at which sites you have waiters."""


class NoWaiters(ClusterMessage, frozen=True, tag="nobody"):
    """The sender has no waiters any more at any site."""


SITE_MESSAGES: tuple[type[ClusterMessage], ...] = (
    ServeSite,
    SiteServed,
    SiteDue,
    SitesWaiting,
    SitesLeft,
    ReportWaiters,
    NoWaiters,
)


class _Change(NamedTuple):
    """A change that is not served yet, and the nodes that could not serve all of it."""

    commit_id: int
    tried: tuple[str, ...]


class _Expected(NamedTuple):
    """A change that another node is to serve, and until when this node waits for that."""

    commit_id: int
    node: str
    until: float


def choose_node(nodes: Iterable[str], commit_id: int) -> str:
    """One of the nodes: the same on every node, another one for another commit."""
    return min(nodes, key=lambda node: crc32(f"{node} {commit_id}".encode()))


def nodes_in_order(nodes: Iterable[str], site_id: int) -> list[str]:
    """All of the nodes, in an order that is the same on every node, another one for another site."""
    return sorted(nodes, key=lambda node: crc32(f"{node} {site_id}".encode()))


class WakeCoordinator(SiteWaiters[Waiter]):
    """Of a node on its own until it joins others."""

    def __init__(self, wake: Callable[[Waiter], None], versions: QueueVersions, monotonic: Callable[[], float]) -> None:
        super().__init__(wake, monotonic)
        self._versions = versions
        self._node = ""
        self._send: Callable[[ClusterMessage], None] = lambda _message: None
        # Site → the other nodes that have waiters there.
        self._others: dict[int, set[str]] = {}
        # The sites at which this node has published that it has waiters.
        self._published: set[int] = set()
        # Site → its newest change that is not served yet.
        self._changes: dict[int, _Change] = {}
        self._expected: dict[int, _Expected] = {}
        # Site → the newest change that another node has served. A node that found a change by scanning the stored
        # messages may serve it before the message of the change itself arrives here.
        self._served: dict[int, int] = {}
        self._woken_here: set[int] = set()
        # Sites whose due time has come, while this node gives another one a little time to publish that it claims.
        self._following: set[int] = set()

    def join(self, node: str, send: Callable[[ClusterMessage], None]) -> None:
        """Be one of several nodes, of this name; `send` publishes to the others."""
        self._node = node
        self._send = send

    def park(self, waiter: Waiter, until: float = NEVER) -> None:
        super().park(waiter, until)
        site_id = waiter.key
        if site_id not in self._published:
            self._published.add(site_id)
            self._send(SitesWaiting((site_id,)))

    def changed_here(self, site_id: int) -> None:
        """A commit of this node changed the queue."""
        if self.notify(site_id):
            self._woken_here.add(site_id)

    def serving_node(self, site_id: int, commit_id: int) -> str:
        """The node that is to serve a change made here; "" if no node is known to have waiters."""
        self._note_change(site_id, commit_id, ())
        if site_id in self._woken_here:
            self._woken_here.discard(site_id)
            return self._node
        others = self._others.get(site_id)
        if not others:
            return ""
        to = choose_node(others, commit_id)
        self._expect(site_id, commit_id, to)
        return to

    def changed_elsewhere(self, site_id: int, commit_id: int, to: str = "", tried: tuple[str, ...] = ()) -> None:
        """Another node's commit changed the queue, or another node passes a change on."""
        self.forget(site_id)
        self._note_change(site_id, commit_id, tried)
        is_waiting = self.is_waiting(site_id)
        candidates = self._others.get(site_id, set()) | ({self._node} if is_waiting else set())
        to = to or (choose_node(candidates, commit_id) if candidates else "")
        if to == self._node:
            self._stop_expecting(site_id, commit_id)
            if not self.wake(site_id):
                self.pass_on(site_id)
        elif is_waiting and not self._is_served(site_id, commit_id):
            self._expect(site_id, commit_id, to)

    def handle_due(self, site_id: int) -> None:
        order = nodes_in_order({*self._others.get(site_id, ()), self._node}, site_id)
        place = order.index(self._node)
        if place and site_id not in self._following:
            self._following.add(site_id)
            self.arm(site_id, self._monotonic() + place * FOLLOW_SECONDS)
            return
        self._following.discard(site_id)
        self._changes.setdefault(site_id, _Change(NO_COMMIT, ()))
        if len(order) > 1:
            self._send(SiteDue(site_id))
        self.notify(site_id)

    def handle_message(self, message: ClusterMessage, node: str) -> None:
        match message:
            case ServeSite(site_id=site_id, commit_id=commit_id, to=to, tried=tried):
                self.changed_elsewhere(site_id, commit_id, to, tried)
            case SiteServed(site_id=site_id, commit_id=commit_id, again_seconds=again_seconds):
                self._handle_served(site_id, commit_id)
                if again_seconds is not None:
                    self.arm(site_id, self._monotonic() + again_seconds)
            case SiteDue(site_id=site_id):
                self._handle_due_elsewhere(site_id, node)
            case SitesWaiting(site_ids=site_ids):
                for site_id in site_ids:
                    self._others.setdefault(site_id, set()).add(node)
            case SitesLeft(site_ids=site_ids):
                for site_id in site_ids:
                    self._remove_node(site_id, node)
            case ReportWaiters():
                self._publish_waiting()
            case NoWaiters():
                for site_id in list(self._others):
                    self._remove_node(site_id, node)

    def mark_served(self, site_id: int, notification: int, again_seconds: float | None = None) -> None:
        """A claim that began after the given notification left no command; the next due time comes in so long."""
        if again_seconds is not None:
            self.arm(site_id, self._monotonic() + again_seconds)
        change = self._changes.get(site_id)
        if change is not None and notification == self.last_notified(site_id):
            del self._changes[site_id]
            if self._others.get(site_id):
                self._send(SiteServed(site_id, change.commit_id, again_seconds))

    def pass_on(self, site_id: int) -> None:
        """There may be commands left, and this node has no waiter to wake: choose the next node."""
        if not self.is_waiting(site_id) and site_id in self._published:
            self._published.discard(site_id)
            self._send(SitesLeft((site_id,)))
        others = self._others.get(site_id)
        if not others:
            return
        commit_id, tried = self._changes.get(site_id, _Change(NO_COMMIT, ()))
        tried = (*tried, self._node)
        left = others - set(tried)
        if left:
            to = choose_node(left, commit_id)
            self._expect(site_id, commit_id, to)
            self._send(ServeSite(site_id, commit_id, to, tried))
        else:
            self._send(SiteServed(site_id, commit_id))

    def tick(self) -> None:
        """To be called about every second: serve the changes that another node should have served by now."""
        now = self._monotonic()
        late = [site_id for site_id, expected in self._expected.items() if expected.until <= now]
        for node in {self._expected[site_id].node for site_id in late}:
            # It may be dead. If it is not, it publishes again where it has waiters.
            for site_id in list(self._others):
                self._remove_node(site_id, node)
        if late:
            self._send(ReportWaiters())
        for site_id in late:
            del self._expected[site_id]
            self.wake(site_id)

    def rejoin(self) -> None:
        """Messages of the other nodes may have been missed: drop what is known of them, and request their waiters."""
        self._others.clear()
        self._expected.clear()
        self._served.clear()
        self._changes.clear()
        self._following.clear()
        self._send(ReportWaiters())
        self._publish_waiting()

    def close(self) -> None:
        self._published.clear()
        self._send(NoWaiters())

    def _handle_served(self, site_id: int, commit_id: int) -> None:
        self._stop_expecting(site_id, commit_id)
        if commit_id > self._served.get(site_id, NO_COMMIT):
            if len(self._served) >= SITES_MAX:
                self._served.clear()
            self._served[site_id] = commit_id

    def _stop_expecting(self, site_id: int, commit_id: int) -> None:
        expected = self._expected.get(site_id)
        if expected is not None and expected.commit_id <= commit_id:
            del self._expected[site_id]

    def _is_served(self, site_id: int, commit_id: int) -> bool:
        return NO_COMMIT < commit_id <= self._served.get(site_id, NO_COMMIT)

    def _handle_due_elsewhere(self, site_id: int, node: str) -> None:
        self._following.discard(site_id)
        self.disarm(site_id, self._monotonic() + SAME_DUE_TIME_SECONDS)
        self.forget(site_id)
        if self.is_waiting(site_id) and site_id not in self._expected:
            self._expect(site_id, NO_COMMIT, node)

    def _note_change(self, site_id: int, commit_id: int, tried: tuple[str, ...]) -> None:
        self._versions.changed(site_id, commit_id)
        if len(self._changes) >= SITES_MAX:
            self._changes.clear()
        known = self._changes.get(site_id)
        if known is None or known.commit_id <= commit_id:
            self._changes[site_id] = _Change(commit_id, tried)

    def _expect(self, site_id: int, commit_id: int, node: str) -> None:
        self._expected[site_id] = _Expected(commit_id, node, self._monotonic() + SERVED_WITHIN_SECONDS)

    def _publish_waiting(self) -> None:
        site_ids = list(self._published)
        for start in range(0, len(site_ids), SITES_AT_ONCE):
            self._send(SitesWaiting(tuple(site_ids[start : start + SITES_AT_ONCE])))

    def _remove_node(self, site_id: int, node: str) -> None:
        others = self._others.get(site_id)
        if others is not None:
            others.discard(node)
            if not others:
                del self._others[site_id]
