"""`GET /apiv1/devices/self/updates`: the application's way to the same poll that the fast lane serves."""

from typing import Any

import msgspec

from restante.core.cursor import parse_cursor, parse_if_none_match
from restante.core.errors import BadInput, RestanteError
from restante.delivery.log.log import jsons_of
from restante.updates.polling.poll import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    WAIT_MAX_SECONDS,
    DevicePoll,
    PollResult,
    Reply,
    UpdatesPoll,
)
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.long_poll import long_poll
from restante.web.request import ApiRequest
from restante.web.response import JSON, NO_STORE, ApiResponse
from restante.web.routes import Access, Header, Query, ResponseInfo, Route

_CURSOR_SCHEMA = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})$", "examples": ["0-0"]}
_CURSOR = Query("cursor", "The last cursor received. If-None-Match takes precedence.", _CURSOR_SCHEMA)
_LIMIT = Query(
    "limit",
    "Maximum number of signals.",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
)
_WAIT = Query(
    "wait",
    "How many seconds to wait for a signal if there is none.",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_SECONDS, "default": 0},
)

_IF_NONE_MATCH = Header(
    "If-None-Match",
    "The last cursor received, as it was sent in ETag; also quoted, and with `W/`.",
    _CURSOR_SCHEMA,
)
_RESPONSE_HEADERS = (
    Header("ETag", "The cursor to send with the next poll.", _CURSOR_SCHEMA, required=True),
    Header(
        "X-Poll-Interval",
        "The number of seconds after which to poll again.",
        {"type": "integer", "minimum": 0},
        required=True,
    ),
)


class SignalView(msgspec.Struct):
    """A signal: something changed, `ref` names what."""

    type: str
    ts_ms: int
    ref: dict[str, Any]


class SignalBatch(msgspec.Struct):
    """The signals after the cursor that was sent, oldest first, and the cursor to send next time."""

    cursor: str
    signals: list[SignalView]


class PollRoutes:
    def __init__(self, poll: UpdatesPoll) -> None:
        self._poll = poll

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/apiv1/devices/self/updates",
                self.updates,
                Access.device,
                "Poll for signals",
                response_format=RESPONSE_FORMAT,
                tag="device",
                query=(_CURSOR, _LIMIT, _WAIT),
                errors=(400, 409, 429, 503),
                headers=(_IF_NONE_MATCH,),
                responses=(
                    ResponseInfo(200, SignalBatch, _RESPONSE_HEADERS),
                    ResponseInfo(204, headers=_RESPONSE_HEADERS, meaning="There is no signal after the cursor."),
                ),
            )
        ]

    async def updates(self, request: ApiRequest) -> ApiResponse:
        """200 with the signals after the cursor, or 204 if there are none. Both have the cursor to send next time as
        ETag, and in X-Poll-Interval the seconds after which to poll again."""
        cursor = _cursor_of(request)
        limit = request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        wait = request.query_int("wait", 0, 0, WAIT_MAX_SECONDS)
        device_id = request.device.device_id
        self._poll.admit(device_id)

        def start(reply: Reply) -> DevicePoll:
            return self._poll.start(device_id, cursor, limit, wait > 0, reply)

        return await long_poll(request.http, self._poll, start, wait, poll_response)


def poll_response(result: PollResult | RestanteError) -> ApiResponse:
    if isinstance(result, RestanteError):
        return RESPONSE_FORMAT.error(result)
    cursor, entries = result.cursor, result.entries
    headers = ((b"etag", cursor), NO_STORE, (b"x-poll-interval", b"%d" % result.interval_seconds))
    if not entries:
        return ApiResponse(204, headers)
    return ApiResponse(200, (JSON, *headers), signals_body(result))


def signals_body(result: PollResult) -> bytes:
    return b'{"data":{"cursor":"%b","signals":[%b]}}' % (result.cursor, b",".join(jsons_of(result.entries)))


def _cursor_of(request: ApiRequest) -> bytes | None:
    headers = request.http.headers.getlist("if-none-match")
    if len(headers) > 1:
        raise BadInput("If-None-Match", "one value")
    if headers:
        return str(parse_if_none_match(headers[0])).encode()
    text = request.query_text("cursor")
    return None if text is None else str(parse_cursor(text)).encode()
