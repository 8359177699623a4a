"""The poll route of a Shared Signals stream (RFC 8936).

It uses the same poll as Open Banking, with the events of the Shared Signals profile, its error body, and without strict
checks of unknown members. A header carries the stream's status, which an empty response does not show.
"""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.events.inbox.poll import ClientPoll, EventPoll, PollResponse, Reply
from restante.events.inbox.poll_schema import Description, Jti, PollBody, SetError, parse_poll
from restante.events.ssf import streams
from restante.events.ssf.response_format import RESPONSE_FORMAT
from restante.events.ssf.routes_streams import STREAMS_PATH, TAG
from restante.web.errors.error_responses import result_response
from restante.web.long_poll import long_poll
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Header, ResponseInfo, Route

STATUS_HEADER = b"ssf-stream-status"

_STATUS = Header(
    "SSF-Stream-Status",
    "The status of the stream.",
    {"type": "string", "enum": ["enabled", "paused", "disabled"]},
    required=True,
)
_to_response = partial(result_response, RESPONSE_FORMAT)


class SsfSetError(SetError):
    """Why an event could not be used. RFC 8936 makes the description optional."""

    description: Description = "no description was given"


class SsfPollBody(PollBody, rename="camel"):
    """A poll of RFC 8936; unknown members are ignored."""

    set_errs: Annotated[dict[Jti, SsfSetError], Meta(description="The events that could not be used, by jti.")] = (
        msgspec.field(default_factory=dict)
    )


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
                Access.ssf_read,
                "Poll a stream and acknowledge its events",
                response_format=RESPONSE_FORMAT,
                tag=TAG,
                errors=(404, 429),
                body_optional=True,
                examples=({"maxEvents": 10, "returnImmediately": True, "ack": ["4d3559ec67504aaba65d40b0363faad8"]},),
                responses=(ResponseInfo(headers=(_STATUS,)),),
            )
        ]

    async def poll(self, request: ApiRequest, body: SsfPollBody) -> PollResponse | ApiResponse:
        """Poll a stream. A paused or disabled one delivers nothing; the header `SSF-Stream-Status` has its status."""
        parsed = parse_poll(body, self._poll.options.events_max)
        client = request.client.id
        stream = await self._database.read(streams.get, client, request.path_text("stream_id"))
        self._poll.admit(client)

        def start(reply: Reply) -> ClientPoll:
            return self._poll.start(client, parsed, reply)

        wait_seconds = self._poll.options.wait_seconds if parsed.waits else 0
        response = await long_poll(request.http, self._poll, start, wait_seconds, _to_response)
        return response.with_headers((STATUS_HEADER, stream.status.encode()))
