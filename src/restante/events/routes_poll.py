"""What clients call, for the application: the plain way to the same poll that the fast lane takes."""

from restante.events.poll import EventPoll, PollAnswer
from restante.events.poll_body import PollBody, StrictPollBody, read_poll
from restante.events.wire import SHAPE, require_acceptable
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.long_poll import long_poll
from restante.web.routes import Access, Route


class PollRoutes:
    def __init__(self, poll: EventPoll, bases: list[str]) -> None:
        self._poll = poll
        self._bases = bases

    def routes(self) -> list[Route]:
        handler = self.poll if self._poll.options.is_lenient else self.poll_strictly
        return [
            Route(
                "POST",
                f"{base}/events",
                handler,
                Access.client,
                "Poll for events and acknowledge them",
                shape=SHAPE,
                tag="event polling",
                refusals=(400, 406, 429, 503),
                body_optional=True,
            )
            for base in self._bases
        ]

    async def poll(self, ask: Ask, body: PollBody) -> PollAnswer | Answer:
        """The client's oldest events, each a signed token under its `jti`, until they are acknowledged here. What `ack`
        and `setErrs` say is taken in first. Without `returnImmediately`, where there is nothing, the answer comes when
        there is or the time is over."""
        require_acceptable(ask.request)
        read = read_poll(body, self._poll.options.events_max)
        client = ask.client.id
        refusal = self._poll.admit(client)
        if refusal is not None:
            raise refusal
        wait_seconds = self._poll.options.wait_seconds if read.waits else 0
        return await long_poll(
            ask.request, self._poll, lambda reply: self._poll.start(client, read, reply), wait_seconds
        )

    async def poll_strictly(self, ask: Ask, body: StrictPollBody) -> PollAnswer | Answer:
        return await self.poll(ask, body)

    poll_strictly.__doc__ = poll.__doc__
