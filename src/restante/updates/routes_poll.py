"""`GET /apiv1/devices/self/updates` for the application: the plain way to the same poll that the fast lane takes."""

from restante.core.cursor import parse_cursor, parse_if_none_match
from restante.core.errors import BadInput
from restante.updates.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, ParkedPoll, Poll, Reply
from restante.updates.wire import SHAPE
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.long_poll import long_poll
from restante.web.routes import Access, Query, Route

_CURSOR = Query("cursor", "The last cursor seen; If-None-Match, where sent, takes precedence.", {"type": "string"})
_LIMIT = Query(
    "limit",
    "How many signals at most.",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
)
_WAIT = Query(
    "wait",
    "For how many seconds to wait for a signal where there is none.",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_SECONDS, "default": 0},
)


class PollRoutes:
    def __init__(self, poll: Poll) -> None:
        self._poll = poll

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/apiv1/devices/self/updates",
                self.updates,
                Access.device,
                "Poll for signals",
                shape=SHAPE,
                tag="device",
                query=(_CURSOR, _LIMIT, _WAIT),
                refusals=(204, 400, 409, 429, 503),
            )
        ]

    async def updates(self, ask: Ask) -> Answer:
        """200 with the signals after the cursor, or 204 where there are none. Both carry the cursor to send next time
        as ETag, and X-Poll-Interval, the seconds after which to call again."""
        cursor = _cursor_of(ask)
        limit = ask.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        wait = ask.query_int("wait", 0, 0, WAIT_MAX_SECONDS)
        refusal = self._poll.admit(ask.device.device_id)
        if refusal is not None:
            raise refusal
        device_id = ask.device.device_id

        def start(reply: Reply) -> ParkedPoll:
            return self._poll.start(device_id, cursor, limit, wait > 0, reply)

        return await long_poll(ask.request, self._poll, start, wait)


def _cursor_of(ask: Ask) -> bytes | None:
    headers = ask.request.headers.getlist("if-none-match")
    if len(headers) > 1:
        raise BadInput("If-None-Match", "one value")
    if headers:
        return str(parse_if_none_match(headers[0])).encode()
    text = ask.query_text("cursor")
    return None if text is None else str(parse_cursor(text)).encode()
