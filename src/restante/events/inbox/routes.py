"""The route that clients poll: the application's way to the same poll that the fast lane serves."""

from functools import partial

from restante.events.api_versions import ApiBase
from restante.events.inbox.poll import ClientPoll, EventPoll, PollResponse, Reply
from restante.events.inbox.poll_schema import PollBody, StrictPollBody, parse_poll
from restante.events.response_format import BY_VERSION, require_acceptable
from restante.web.errors.error_responses import result_response
from restante.web.long_poll import long_poll
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route

_EXAMPLE = {
    "maxEvents": 10,
    "returnImmediately": True,
    "ack": ["4d3559ec67504aaba65d40b0363faad8"],
    "setErrs": {"3d0c3cf797584bd193bd0fb1bd4e7d30": {"err": "jwtIss", "description": "Issuer is invalid"}},
}


class PollRoutes:
    """The route under one base."""

    def __init__(self, poll: EventPoll, base: ApiBase) -> None:
        self._poll = poll
        self._base = base
        self._to_response = partial(result_response, BY_VERSION[base.version])

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                f"{self._base.path}/events",
                self.poll if self._poll.options.is_lenient else self.poll_strictly,
                Access.client,
                "Poll for events and acknowledge them",
                response_format=BY_VERSION[self._base.version],
                tag="event polling",
                errors=(400, 406, 429, 503),
                body_optional=True,
                examples=(_EXAMPLE,),
            )
        ]

    async def poll(self, request: ApiRequest, body: PollBody) -> PollResponse | ApiResponse:
        """The client's oldest events, each a signed token under its `jti`, until they are acknowledged here. `ack` and
        `setErrs` are applied first. Without `returnImmediately`, if there are no events, the response comes when there
        are or the wait time is over."""
        require_acceptable(request.http)
        parsed = parse_poll(body, self._poll.options.events_max)
        client = request.client.id
        self._poll.admit(client)

        def start(reply: Reply) -> ClientPoll:
            return self._poll.start(client, parsed, reply)

        wait_seconds = self._poll.options.wait_seconds if parsed.waits else 0
        return await long_poll(request.http, self._poll, start, wait_seconds, self._to_response)

    async def poll_strictly(self, request: ApiRequest, body: StrictPollBody) -> PollResponse | ApiResponse:
        return await self.poll(request, body)

    poll_strictly.__doc__ = poll.__doc__
