"""Who wakes a waiting collector when a site's queue has changed and several nodes have collectors of the site waiting.

    commit here ─▶ somebody waits here: woken, the others are told that it is ours
                ─▶ nobody does: one of the nodes that said somebody waits there is asked to
    asked       ─▶ wakes one; whose claim leaves something behind and has nobody more to wake asks the next node
    served      ─▶ the others need not look
    a moment    ─▶ what becomes due by itself, every node knows: the first in an order of the site's own looks and says
                   so, the others follow a little later each, unless they have heard it

Nodes tell each other at which sites somebody waits, once until they have nobody when asked. What they know of each
other may be out of date: then two look where one would do, or nobody does; and nodes with waiters that hear of a
change, but not within two seconds that it was served, look themselves.

Must always hold: a change makes every node drop what it knows of the site, whoever is to look. Runs in the event loop's
thread only, does no I/O: what is to be told goes to `send`. Knows nothing of databases.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from restante.commands.site_bell import SITES_MAX, SiteBell

SERVED_WITHIN_SECONDS = 2.0
# How much later than the node before it a node looks when a moment has come: longer than a word takes to be heard.
FOLLOW_SECONDS = 0.1
# A moment known here and one that another node speaks of are the same if they are no further apart.
SAME_MOMENT_SECONDS = 0.5
SITES_AT_ONCE = 500
# The number of a ring that no commit has caused, lower than any other.
NO_COMMIT = 0


class SiteRing(msgspec.Struct, array_like=True, frozen=True, tag="ring"):
    """A change is yours to serve; those who tried could not serve all of it."""

    site_id: int
    ring_id: int
    to: str
    tried: tuple[str, ...]


class SiteServed(msgspec.Struct, array_like=True, frozen=True, tag="served"):
    """Nothing was left; there may be something again, without news, in so many seconds."""

    site_id: int
    ring_id: int
    again_seconds: float | None = None


class SiteMoment(msgspec.Struct, array_like=True, frozen=True, tag="moment"):
    """The moment has come that is known for the site, and I am looking."""

    site_id: int


class SitesWaiting(msgspec.Struct, array_like=True, frozen=True, tag="waiting"):
    """Somebody waits here at these sites."""

    site_ids: tuple[int, ...]


class SitesLeft(msgspec.Struct, array_like=True, frozen=True, tag="left"):
    """Nobody waits here any more at these sites."""

    site_ids: tuple[int, ...]


class WhoWaits(msgspec.Struct, array_like=True, frozen=True, tag="who"):
    """Tell me where somebody waits at yours: I do not know."""


class NobodyWaits(msgspec.Struct, array_like=True, frozen=True, tag="nobody"):
    """Here nobody waits anywhere any more."""


SiteMessage = SiteRing | SiteServed | SiteMoment | SitesWaiting | SitesLeft | WhoWaits | NobodyWaits


class _Owed(NamedTuple):
    """A change that another node is to serve, and until when it may take."""

    ring_id: int
    by: str
    until: float


def chosen(nodes: Iterable[str], ring_id: int) -> str:
    """One of them, the same wherever it is asked; another one for another ring."""
    return min(nodes, key=lambda node: crc32(f"{node} {ring_id}".encode()))


def in_order(nodes: Iterable[str], site_id: int) -> list[str]:
    """All of them, in an order that is the same wherever it is asked; another one for another site."""
    return sorted(nodes, key=lambda node: crc32(f"{node} {site_id}".encode()))


class SiteNeighbours:
    def __init__(
        self,
        bell: SiteBell[Any],
        me: str,
        send: Callable[[SiteMessage], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._bell = bell
        self._me = me
        self._send = send
        self._monotonic = monotonic
        # Site → the other nodes at which somebody waits.
        self._others: dict[int, set[str]] = {}
        # Where we have said that somebody waits here.
        self._said: set[int] = set()
        # The newest change of a site that is not served yet, and who could not.
        self._rings: dict[int, tuple[int, tuple[str, ...]]] = {}
        self._owed: dict[int, _Owed] = {}
        self._woken_here: set[int] = set()
        # Sites whose moment has come, and where another node is given a little time to say that it looks.
        self._following: set[int] = set()
        bell.on_first_waiting = self.waits_here
        bell.on_moment = self.moment_came
        # Told of every change of a site's queue, with the number of its commit.
        self.on_change: Callable[[int, int], None] = lambda _site_id, _commit_id: None

    def waits_here(self, site_id: int) -> None:
        """Somebody begins to wait at a site where nobody did."""
        if site_id not in self._said:
            self._said.add(site_id)
            self._send(SitesWaiting((site_id,)))

    def changed_here(self, site_id: int) -> None:
        """A commit of this node changed the queue."""
        if self._bell.ring(site_id):
            self._woken_here.add(site_id)

    def to_serve(self, site_id: int, ring_id: int) -> str:
        """The node that is to serve a change made here, for the others to be told; "" for whoever has somebody."""
        self._note(site_id, ring_id, ())
        if site_id in self._woken_here:
            self._woken_here.discard(site_id)
            return self._me
        others = self._others.get(site_id)
        if not others:
            return ""
        to = chosen(others, ring_id)
        self._owe(site_id, ring_id, to)
        return to

    def changed_elsewhere(self, site_id: int, ring_id: int, to: str = "", tried: tuple[str, ...] = ()) -> None:
        """Another node's commit changed the queue, or another node passes the change on to be served."""
        self._bell.drop(site_id)
        self._note(site_id, ring_id, tried)
        is_waiting = self._bell.is_waiting(site_id)
        candidates = self._others.get(site_id, set()) | ({self._me} if is_waiting else set())
        to = to or (chosen(candidates, ring_id) if candidates else "")
        if to == self._me:
            if not self._bell.wake_next(site_id):
                self.left_behind(site_id)
        elif is_waiting:
            self._owe(site_id, ring_id, to)

    def moment_came(self, site_id: int) -> None:
        """Something may have become due that was known to become so now."""
        order = in_order({*self._others.get(site_id, ()), self._me}, site_id)
        place = order.index(self._me)
        if place and site_id not in self._following:
            self._following.add(site_id)
            self._bell.arm(site_id, self._monotonic() + place * FOLLOW_SECONDS)
            return
        self._following.discard(site_id)
        self._rings.setdefault(site_id, (NO_COMMIT, ()))
        if len(order) > 1:
            self._send(SiteMoment(site_id))
        self._bell.ring(site_id)

    def hear(self, message: SiteMessage, node: str) -> None:
        match message:
            case SiteRing(site_id=site_id, ring_id=ring_id, to=to, tried=tried):
                self.changed_elsewhere(site_id, ring_id, to, tried)
            case SiteServed(site_id=site_id, ring_id=ring_id, again_seconds=again_seconds):
                self._hear_served(site_id, ring_id)
                if again_seconds is not None:
                    self._bell.arm(site_id, self._monotonic() + again_seconds)
            case SiteMoment(site_id=site_id):
                self._hear_moment(site_id, node)
            case SitesWaiting(site_ids=site_ids):
                for site_id in site_ids:
                    self._others.setdefault(site_id, set()).add(node)
            case SitesLeft(site_ids=site_ids):
                for site_id in site_ids:
                    self._forget(site_id, node)
            case WhoWaits():
                self._say_all()
            case NobodyWaits():
                for site_id in list(self._others):
                    self._forget(site_id, node)

    def served(self, site_id: int, looked_at: int, again_seconds: float | None = None) -> None:
        """A claim that began after the given ring has left nothing behind; when there may be more without news."""
        if again_seconds is not None:
            self._bell.arm(site_id, self._monotonic() + again_seconds)
        ring = self._rings.get(site_id)
        if ring is not None and looked_at == self._bell.last_ring(site_id):
            del self._rings[site_id]
            if self._others.get(site_id):
                self._send(SiteServed(site_id, ring[0], again_seconds))

    def left_behind(self, site_id: int) -> None:
        """There may be more, and here is nobody to take it: the next node's turn."""
        if not self._bell.is_waiting(site_id) and site_id in self._said:
            self._said.discard(site_id)
            self._send(SitesLeft((site_id,)))
        others = self._others.get(site_id)
        if not others:
            return
        ring_id, tried = self._rings.get(site_id, (NO_COMMIT, ()))
        tried = (*tried, self._me)
        left = others - set(tried)
        if left:
            to = chosen(left, ring_id)
            self._owe(site_id, ring_id, to)
            self._send(SiteRing(site_id, ring_id, to, tried))
        else:
            self._send(SiteServed(site_id, ring_id))

    def tick(self) -> None:
        """To be called about every second: serve what another node should have."""
        now = self._monotonic()
        late = [site_id for site_id, owed in self._owed.items() if owed.until <= now]
        for node in {self._owed[site_id].by for site_id in late}:
            # It may be dead. If it is not, it says again who waits at it.
            for site_id in list(self._others):
                self._forget(site_id, node)
        if late:
            self._send(WhoWaits())
        for site_id in late:
            del self._owed[site_id]
            self._bell.wake_next(site_id)

    def start_again(self) -> None:
        """Nothing is known of the others: they may have said anything meanwhile."""
        self._others.clear()
        self._owed.clear()
        self._rings.clear()
        self._following.clear()
        self._send(WhoWaits())
        self._say_all()

    def close(self) -> None:
        self._said.clear()
        self._send(NobodyWaits())

    def _hear_served(self, site_id: int, ring_id: int) -> None:
        owed = self._owed.get(site_id)
        if owed is not None and owed.ring_id <= ring_id:
            del self._owed[site_id]

    def _hear_moment(self, site_id: int, node: str) -> None:
        self._following.discard(site_id)
        self._bell.disarm(site_id, self._monotonic() + SAME_MOMENT_SECONDS)
        self._bell.drop(site_id)
        if self._bell.is_waiting(site_id) and site_id not in self._owed:
            self._owe(site_id, NO_COMMIT, node)

    def _note(self, site_id: int, ring_id: int, tried: tuple[str, ...]) -> None:
        self.on_change(site_id, ring_id)
        if len(self._rings) >= SITES_MAX:
            self._rings.clear()
        known = self._rings.get(site_id)
        if known is None or known[0] <= ring_id:
            self._rings[site_id] = (ring_id, tried)

    def _owe(self, site_id: int, ring_id: int, by: str) -> None:
        self._owed[site_id] = _Owed(ring_id, by, self._monotonic() + SERVED_WITHIN_SECONDS)

    def _say_all(self) -> None:
        said = list(self._said)
        for start in range(0, len(said), SITES_AT_ONCE):
            self._send(SitesWaiting(tuple(said[start : start + SITES_AT_ONCE])))

    def _forget(self, site_id: int, node: str) -> None:
        others = self._others.get(site_id)
        if others is not None:
            others.discard(node)
            if not others:
                del self._others[site_id]
