"""All about shared signals, put together: streams, their poll, and what operators do with them."""

from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.delivery.presence import Presence
from restante.events.inbox import SHARED_SIGNALS, InboxChanged
from restante.events.poll import EventPoll, PollOptions
from restante.events.receiver_client import ReceiverClient
from restante.events.routes_admin_streams import AdminStreamRoutes
from restante.events.routes_stream_control import StreamControlRoutes
from restante.events.routes_stream_poll import StreamPollRoutes
from restante.events.routes_streams import StreamRoutes
from restante.events.ssf_options import SignalsOptions
from restante.events.ssf_wire import SHAPE
from restante.events.totals import EventTotals
from restante.identity.callers import ClientRevoked
from restante.identity.master_key import MasterKey
from restante.web.routes import Route


class SharedSignals:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        client: ReceiverClient,
        presence: Presence,
        totals: EventTotals,
        poll: PollOptions,
        options: SignalsOptions,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._client = client
        self._options = options
        self.poll = EventPoll(database, poll, presence, totals, profile=SHARED_SIGNALS, shape=SHAPE)

    def routes(self) -> list[Route]:
        return [
            *StreamControlRoutes(self._database, self._options).routes(),
            *StreamRoutes(self._database, self._client, self._master_key, self._options).routes(),
            *StreamPollRoutes(self._database, self.poll).routes(),
            *AdminStreamRoutes(self._database).routes(),
        ]

    def hear(self, event: object) -> None:
        """Pass on what a commit announced, if it concerns streams. Runs in the event loop."""
        match event:
            case InboxChanged(client=client):
                self.poll.bell.ring(client)
            case ClientRevoked(id=client):
                self.poll.turn_away(client)
            case ForeignCommit():
                self.poll.bell.ring_all()

    def tick(self, now: float) -> None:
        self.poll.tick(now)

    def close(self) -> None:
        """Answer who waits, and let nobody wait any more."""
        self.poll.close()
