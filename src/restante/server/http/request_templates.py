"""Recognition of fast GET requests in raw bytes.

A request is recognized only if it is complete and fully understood: a request line with a fast handler, headers from a
short list, each at most once, no body, and no bytes after it. For any other request the result is None, and a real
parser handles it.

A request of HTTP/1.0, or with `Connection: close`, is the last one of its connection: `closes`. Its response says so.

The requests of a fleet differ in two values only, the token and the cursor. The template of a request is the request
without these values. A template is checked once and remembered; the next request with that template costs a few
searches in C. A template with a cursor in its query would not occur again, and is not remembered.

Invariant: a template is remembered only after the whole request was found plain. A token or a cursor cannot make a
request less plain: each ends at the first line end, and is compared as a whole afterwards.
"""

import re
from collections.abc import Mapping

from restante.web.fast_lane_api import FastHandler

# Any client can add templates, so their number and size are limited. If the limit is reached, all are learnt again.
TEMPLATES_MAX = 4096
TEMPLATE_BYTES_MAX = 1024
# A real parser handles larger requests, and refuses those over its own bounds.
PLAIN_HEAD_BYTES_MAX = 8192
PLAIN_LINES_MAX = 50

LINE = b"\r\n"
END = b"\r\n\r\n"
VERSIONS = (b" HTTP/1.1", b" HTTP/1.0")
VERSION_LENGTH = 9
# Control characters that no request may contain; tabs and line ends are allowed.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
AUTHORIZATION = b"\r\nAuthorization: "
BEARER = b"\r\nAuthorization: Bearer "
_IF_NONE_MATCH = b"\r\nIf-None-Match: "
AUTHORIZATION_LENGTH = len(AUTHORIZATION)
_BEARER_LENGTH = len(BEARER)
_IF_NONE_MATCH_LENGTH = len(_IF_NONE_MATCH)

# The headers that a fast request may have: those that the handler gets, and those that are ignored.
_CONNECTION_VALUES = (b"keep-alive", b"close")
HANDLER_HEADERS = frozenset([b"authorization", b"if-none-match", b"host", b"connection"])
_IGNORED_HEADERS = frozenset(
    [
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"cache-control",
        b"pragma",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"x-request-id",
    ]
)


# The handler, the query, the headers for the handler, and whether the connection closes after the response.
FastRequest = tuple[FastHandler, bytes, dict[bytes, bytes], bool]
# All bytes of a response, and whether the connection closes after it.
FastResponse = tuple[bytes, bool]
_CLOSE_LINE = b"\r\nconnection: close"


class RequestTemplates:
    def __init__(self, handlers: Mapping[bytes, FastHandler]) -> None:
        self._handlers = handlers
        self._templates: dict[bytes, tuple[FastHandler, bytes, bool]] = {}

    def respond_from_memory(self, data: bytes, date_line: bytes) -> FastResponse | None:
        """Return the response to a request with a known template, if its handler needs no I/O for it."""
        start = data.find(BEARER)
        if start < 0:
            return None
        token = start + _BEARER_LENGTH
        token_end = data.find(LINE, token)
        cursor_start = data.find(_IF_NONE_MATCH, start)
        if cursor_start < 0:
            cursor = cursor_end = 0
            known = self._templates.get(data[: token - 7] + data[token_end:])
        else:
            cursor = cursor_start + _IF_NONE_MATCH_LENGTH
            cursor_end = data.find(LINE, cursor)
            # The removed value starts with the scheme, so the scheme is not part of the template.
            known = self._templates.get(data[: token - 7] + data[token_end:cursor] + data[cursor_end:])
        if known is None:
            return None
        response = known[0].idle_response(known[1], data[token:token_end], data[cursor:cursor_end], date_line)
        if response is None:
            return None
        return (closing(response), True) if known[2] else (response, False)

    def recognize(self, data: bytes) -> FastRequest | None:
        start = data.find(AUTHORIZATION)
        if start < 0:
            return self._parse(data)
        cursor_start = data.find(_IF_NONE_MATCH, start)
        if cursor_start < 0:
            return self._recognise_by_token(data, start + AUTHORIZATION_LENGTH)
        value = start + AUTHORIZATION_LENGTH
        end = data.find(LINE, value)
        cursor_value = cursor_start + _IF_NONE_MATCH_LENGTH
        cursor_end = data.find(LINE, cursor_value)
        template = data[:value] + data[end:cursor_value] + data[cursor_end:]
        known = self._templates.get(template)
        if known is not None:
            headers = {b"authorization": data[value:end], b"if-none-match": data[cursor_value:cursor_end]}
            return known[0], known[1], headers, known[2]
        request = self._parse(data)
        if request is not None:
            self._remember(template, request)
        return request

    def _recognise_by_token(self, data: bytes, value: int) -> FastRequest | None:
        """Like `recognize`, for requests without `If-None-Match` in its usual spelling."""
        end = data.find(LINE, value)
        template = data[:value] + data[end:]
        known = self._templates.get(template)
        if known is not None:
            return known[0], known[1], {b"authorization": data[value:end]}, known[2]
        request = self._parse(data)
        # A cursor in a header with another spelling is part of the template, but the handler needs it.
        if request is not None and b"if-none-match" not in request[2]:
            self._remember(template, request)
        return request

    def _remember(self, template: bytes, request: FastRequest) -> None:
        if len(template) <= TEMPLATE_BYTES_MAX and b"cursor=" not in request[1]:
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            self._templates[template] = (request[0], request[1], request[3])

    def __len__(self) -> int:
        """The number of remembered templates."""
        return len(self._templates)

    def _parse(self, data: bytes) -> FastRequest | None:
        end = data.find(LINE)
        version = data[end - VERSION_LENGTH : end]
        if version not in VERSIONS:
            return None
        target, _, query = data[: end - VERSION_LENGTH].partition(b"?")
        handler = self._handlers.get(target)
        if handler is None:
            return None
        headers = parse_plain_headers(data, end)
        return None if headers is None else (handler, query, headers, closes_connection(version, headers))


def closes_connection(version: bytes, headers: dict[bytes, bytes]) -> bool:
    """Whether a plain request is the last one of its connection. uvicorn keeps no connection of HTTP/1.0 open."""
    return version != VERSIONS[0] or headers.get(b"connection", b"").lower() == b"close"


def closing(response: bytes) -> bytes:
    """The response, as the last one of its connection."""
    end = response.find(END)
    return response[:end] + _CLOSE_LINE + response[end:]


def parse_plain_headers(
    data: bytes, start: int, names: frozenset[bytes] = HANDLER_HEADERS
) -> dict[bytes, bytes] | None:
    """Return the headers for the handler, or None if the request is not plain."""
    if len(data) > PLAIN_HEAD_BYTES_MAX or data.find(END, start) != len(data) - len(END):
        return None
    lines = data[start + 2 : -4].split(LINE)
    if len(lines) > PLAIN_LINES_MAX:
        return None
    # Other parsers treat a bare line feed or carriage return inside a line differently.
    if data.count(b"\n") != len(lines) + 2 or data.count(b"\r") != len(lines) + 2 or CONTROL.search(data):
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if name in _IGNORED_HEADERS and colon and name not in names:
            continue
        if name not in names or name in headers or not colon:
            return None
        headers[name] = value.strip(b" \t")
    if b"host" not in headers or headers.get(b"connection", b"close").lower() not in _CONNECTION_VALUES:
        return None
    return headers
