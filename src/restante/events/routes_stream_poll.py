"""The poll of a stream of shared signals (RFC 8936), at an address of its own: the same poll as Open Banking's, with
the other profile's events, its error body, and without its strictness.

What a poller cannot tell from an empty answer, whether the stream is stopped, stands in a header.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.events import streams
from restante.events.poll import EventPoll, PollAnswer
from restante.events.poll_body import Description, Jti, PollBody, SetError, read_poll
from restante.events.routes_streams import STREAMS_PATH, TAG
from restante.events.ssf_wire import SHAPE
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.long_poll import long_poll
from restante.web.routes import Access, Route

STATUS_HEADER = b"ssf-stream-status"


class SignalsSetError(SetError):
    """Why an event could not be used; the RFC leaves it to the receiver to describe it."""

    description: Description = "no description was given"


class SignalsPollBody(PollBody, rename="camel"):
    """RFC 8936; what is not known is passed over."""

    set_errs: Annotated[
        dict[Jti, SignalsSetError], Meta(description="By their ids, the events that could not be used.")
    ] = msgspec.field(default_factory=dict)


class StreamPollRoutes:
    def __init__(self, database: Database, poll: EventPoll) -> None:
        self._database = database
        self._poll = poll

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                f"{STREAMS_PATH}/{{stream_id}}/poll",
                self.poll,
                Access.signals_read,
                "Poll a stream and acknowledge its events",
                shape=SHAPE,
                tag=TAG,
                refusals=(404, 429),
                body_optional=True,
            )
        ]

    async def poll(self, ask: Ask, body: SignalsPollBody) -> PollAnswer | Answer:
        """A stream that is paused or disabled hands out nothing; the header `SSF-Stream-Status` says which it is."""
        read = read_poll(body, self._poll.options.events_max)
        client = ask.client.id
        stream = await self._database.read(streams.get, client, ask.path_text("stream_id"))
        refusal = self._poll.admit(client)
        if refusal is not None:
            raise refusal
        wait_seconds = self._poll.options.wait_seconds if read.waits else 0
        answer = await long_poll(
            ask.request, self._poll, lambda reply: self._poll.start(client, read, reply), wait_seconds
        )
        return answer.with_headers((STATUS_HEADER, stream.status.encode()))
