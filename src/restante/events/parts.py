"""Everything of event polling, put together: what the server serves, runs beside it, and passes commits' news to.

The server constructs it once and knows no more of this protocol: routes for the application, handlers for the fast
lane, background services by name, and `hear` for what commits announce.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.delivery.presence import Presence
from restante.delivery.retention import Sweep
from restante.events import event_audit
from restante.events.eviction import evict, write_last_poll
from restante.events.fast_poll import FastPoll
from restante.events.inbox import InboxChanged
from restante.events.poll import EventPoll, PollOptions
from restante.events.routes_poll import PollRoutes
from restante.events.token_parts import EventTokens, TokenOptions
from restante.events.totals import EventTotals
from restante.identity.callers import ClientRevoked
from restante.identity.client_tokens import ClientTokens
from restante.identity.master_key import MasterKey
from restante.web.hot import PollPost
from restante.web.routes import Route

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions:
    """This protocol's settings. With `keep_audit_days` 0 it is never forgotten who did what to events."""

    base: str = "/open-banking/v4.0"
    poll: PollOptions = field(default_factory=PollOptions)
    keep_acknowledged_days: int = 30
    keep_audit_days: int = 365
    tokens: TokenOptions = field(default_factory=TokenOptions)

    def bases(self) -> list[str]:
        """Where what clients call is found: at the root and under the base."""
        return list(dict.fromkeys(["", self.base]))


class EventsParts:
    def __init__(
        self, database: Database, master_key: MasterKey, client_tokens: ClientTokens, options: EventsOptions
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._tokens = client_tokens
        self._options = options
        self.totals = EventTotals()
        self.presence = Presence(database, write_last_poll)
        self.poll = EventPoll(database, options.poll, self.presence, self.totals)
        self.tokens = EventTokens(database, master_key, options.tokens)

    def routes(self) -> list[Route]:
        return [*PollRoutes(self.poll, self._options.bases()).routes(), *self.tokens.routes()]

    def hot_polls(self) -> list[PollPost]:
        return FastPoll(self.poll, self._tokens).posts(self._options.bases())

    def services(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What runs for as long as the server does; beside these, `tick` wants to be called every second."""
        yield "clients' presence", self.presence.run
        yield from self.tokens.services()

    def sweeps(self) -> list[Sweep]:
        keep_seconds = self._options.keep_acknowledged_days * DAY_SECONDS
        sweeps: list[Sweep] = [partial(evict, keep_seconds=keep_seconds), *self.tokens.sweeps()]
        if days := self._options.keep_audit_days:
            sweeps.append(partial(event_audit.forget_old, keep_seconds=days * DAY_SECONDS))
        return sweeps

    def tick(self, now: float) -> None:
        self.poll.tick(now)

    def hear(self, event: object) -> None:
        """Pass on what a commit announced, if it concerns this protocol. Runs in the event loop."""
        self.tokens.hear(event)
        match event:
            case InboxChanged(client=client):
                self.poll.bell.ring(client)
            case ClientRevoked(id=client):
                self._tokens.forget_all()
                self.poll.turn_away(client)
            case ForeignCommit():
                self.poll.bell.ring_all()

    async def catch_up(self) -> None:
        """Another process changed something: forget whom it may have revoked."""
        await self._tokens.catch_up()

    def close(self) -> None:
        """Answer who waits, and let nobody wait any more."""
        self.poll.close()

    async def finish(self) -> None:
        """Write down what was only remembered, when all else has stopped."""
        await self.presence.try_once()
