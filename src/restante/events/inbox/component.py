"""What the components with a poll of an inbox share: event polling, and Shared Signals."""

from collections.abc import Mapping

from restante.database.commit_events import ForeignCommit
from restante.events.inbox.inbox import InboxChanged
from restante.events.inbox.poll import EventPoll
from restante.identity.callers import ClientRevoked
from restante.web.component import EventHandler, PollComponent


class InboxPollComponent(PollComponent):
    poll: EventPoll

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {
            InboxChanged: lambda event: self.poll.notify(event.client),
            ClientRevoked: lambda event: self.poll.refuse_parked(event.id),
            ForeignCommit: lambda _: self.poll.notify_all(),
        }
