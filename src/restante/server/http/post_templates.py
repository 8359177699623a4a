"""Recognition of fast POST requests, ACKs and polls for events, in raw bytes.

As in `request_templates`, a request is complete and fully understood, or a real parser handles it. These requests
differ in a name within their path, in token, length and body, and perhaps in a correlation id. The rest is the
template, which is checked once and remembered. If only the body is incomplete, as many clients send it, the fast lane
waits for the rest.

A client without news repeats its poll with the same body. For such polls the body is part of the template; only the
token and the correlation id are removed before the lookup.

Invariant: a template is remembered only after the whole request was found plain. A removed value cannot make a request
less plain: it ends at the first line end, and is compared or checked as a whole afterwards.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum

from restante.server.http.request_templates import (
    AUTHORIZATION,
    BEARER,
    END,
    LINE,
    PLAIN_HEAD_BYTES_MAX,
    TEMPLATE_BYTES_MAX,
    TEMPLATES_MAX,
    VERSION_LENGTH,
    VERSIONS,
    FastResponse,
    closes_connection,
    closing,
    parse_plain_headers,
)
from restante.web.fast_lane_api import FastConnection, FastPost, FastPostHandler, PollPost, PollPostHandler

# The application handles larger bodies: no usual ACK is that large.
BODY_BYTES_MAX = 65_536

_NAME = re.compile(rb"[A-Za-z0-9_.~-]+")
_CONTENT_LENGTH = b"\r\nContent-Length: "
_HANDLER_HEADERS = frozenset([b"authorization", b"content-length", b"content-type", b"host", b"connection"])
_BEARER_LENGTH = len(BEARER)

# Like FastRequest, with an empty query.
PostRequest = tuple[Callable[[bytes, dict[bytes, bytes], FastConnection], bool], bytes, dict[bytes, bytes], bool]
HeaderCheck = Callable[[dict[bytes, bytes]], bool]


class IncompleteBody(Enum):
    """The request is plain and known so far, but its body is incomplete."""

    wait = "wait for the rest"


class PostTemplates:
    def __init__(
        self, posts: Sequence[FastPost], polls: Sequence[PollPost] = (), body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        templates = _HeaderTemplates(
            {AUTHORIZATION: b"authorization", _CONTENT_LENGTH: b"content-length"}, _HANDLER_HEADERS
        )
        self._body_bytes_max = min(body_bytes_max, BODY_BYTES_MAX)
        self._posts = [
            (post.before_name, post.behind_name + version, post.handler) for post in posts for version in VERSIONS
        ]
        self._post_header_templates = templates
        self._polls = {
            poll.line + version: (poll, templates)
            for poll, templates in ((poll, _poll_templates(poll)) for poll in polls)
            for version in VERSIONS
        }
        self._correlations = list(
            dict.fromkeys(spelling for poll in polls for spelling in _spellings(poll.correlation))
        )
        self._poll_lines = tuple(line + LINE for line in self._polls)
        # Whole requests without token and correlation id: the handler, the body, whether the connection closes.
        self._repeated_polls: dict[bytes, tuple[PollPostHandler, bytes, bool]] = {}

    def respond_from_memory(self, data: bytes, date_line: bytes, lane: FastConnection) -> FastResponse | None:
        """Return the response to a repeated poll, if its handler needs no I/O for it."""
        found = self._repeated_template(data) if data.startswith(self._poll_lines) else None
        if found is None:
            return None
        template, token, correlation = found
        known = self._repeated_polls.get(template)
        if known is None:
            return None
        response = known[0].idle_response(known[1], token, correlation, date_line, lane)
        if response is None:
            return None
        return (closing(response), True) if known[2] else (response, False)

    def recognize(self, data: bytes) -> PostRequest | IncompleteBody | None:
        line_end, head_end = data.find(LINE), data.find(END)
        line = data[:line_end]
        found = self._handler_and_name(line)
        if found is None or not 0 <= head_end <= PLAIN_HEAD_BYTES_MAX:
            return None
        handler, name, templates = found
        plain = templates.headers(data, line_end, head_end)
        if plain is None:
            return None
        headers, closes = plain
        body = data[head_end + len(END) :]
        length = int(headers[b"content-length"])
        if length > self._body_bytes_max:
            return None
        if len(body) != length:
            return IncompleteBody.wait if len(body) < length else None
        poll = self._polls.get(line)
        if poll is not None and poll[0].handler.is_repeated(body):
            self._remember(data, headers, poll[0], body, closes)

        def handle(_query: bytes, headers: dict[bytes, bytes], lane: FastConnection) -> bool:
            return handler(name, body, headers, lane)

        return handle, b"", headers, closes

    def __len__(self) -> int:
        """The number of remembered templates of requests that are not polls."""
        return len(self._post_header_templates)

    def _handler_and_name(self, line: bytes) -> "tuple[FastPostHandler, bytes, _HeaderTemplates] | None":
        poll = self._polls.get(line)
        if poll is not None:
            return poll[0].handler, b"", poll[1]
        for before, behind, handler in self._posts:
            if line.startswith(before) and line.endswith(behind):
                name = line[len(before) : -len(behind)]
                # A real parser handles any other name.
                return (handler, name, self._post_header_templates) if _NAME.fullmatch(name) else None
        return None

    def _repeated_template(self, data: bytes) -> tuple[bytes, bytes, bytes | None] | None:
        """The request without token and correlation id, the token, and the correlation id."""
        start = data.find(BEARER)
        if start < 0:
            return None
        token = start + _BEARER_LENGTH
        token_end = data.find(LINE, token)
        for spelling in self._correlations:
            at = data.find(spelling)
            if at >= 0:
                value = at + len(spelling)
                end = data.find(LINE, value)
                if token < value:
                    template = data[:token] + data[token_end:value] + data[end:]
                else:
                    template = data[:value] + data[end:token] + data[token_end:]
                return template, data[token:token_end], data[value:end]
        return data[:token] + data[token_end:], data[token:token_end], None

    def _remember(self, data: bytes, headers: dict[bytes, bytes], poll: PollPost, body: bytes, closes: bool) -> None:
        found = self._repeated_template(data)
        if found is None or len(found[0]) > TEMPLATE_BYTES_MAX:
            return
        _template, token, correlation = found
        # If a header has another spelling, its value was not removed, or another value was.
        if headers.get(b"authorization") != b"Bearer " + token or headers.get(poll.correlation) != correlation:
            return
        if len(self._repeated_polls) >= TEMPLATES_MAX:
            self._repeated_polls.clear()
        self._repeated_polls[found[0]] = (poll.handler, body, closes)


class _HeaderTemplates:
    """Templates of requests that differ in values of headers; `removed` maps usual spellings to header names."""

    def __init__(
        self, removed: dict[bytes, bytes], names: frozenset[bytes], accepts: HeaderCheck = lambda _headers: True
    ) -> None:
        self._removed = removed
        self._removed_names = frozenset(removed.values())
        self._names = names
        self._accepts = accepts
        # Whether the connection closes after a request with that template.
        self._templates: dict[bytes, bool] = {}

    def headers(self, data: bytes, start: int, end: int) -> tuple[dict[bytes, bytes], bool] | None:
        """Return the headers for the handler, and whether the connection closes; None if the request is not plain."""
        template, found = data[start - VERSION_LENGTH : end], {}
        for spelling, name in self._removed.items():
            before, is_there, rest = template.partition(spelling)
            if is_there:
                found[name], line, behind = rest.partition(LINE)
                template = before + spelling + line + behind
        closes = self._templates.get(template)
        if closes is not None:
            return (found, closes) if _is_length(found.get(b"content-length", b"")) else None
        headers = self._parse(data[: end + len(END)], start)
        if headers is None:
            return None
        closes = closes_connection(data[start - VERSION_LENGTH : start], headers)
        # A value in a header with another spelling is part of the template, but the handler needs it.
        if len(template) <= TEMPLATE_BYTES_MAX and headers.keys() & self._removed_names == found.keys():
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            self._templates[template] = closes
        return headers, closes

    def __len__(self) -> int:
        return len(self._templates)

    def _parse(self, head: bytes, start: int) -> dict[bytes, bytes] | None:
        headers = parse_plain_headers(head, start, self._names)
        if headers is None or not _is_length(headers.get(b"content-length", b"")):
            return None
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return headers if media_type == b"application/json" and self._accepts(headers) else None


def _poll_templates(poll: PollPost) -> _HeaderTemplates:
    removed = {AUTHORIZATION: b"authorization", _CONTENT_LENGTH: b"content-length"}
    removed |= dict.fromkeys(_spellings(poll.correlation), poll.correlation)
    return _HeaderTemplates(removed, _HANDLER_HEADERS | {poll.correlation, b"accept"}, poll.handler.accepts)


def _spellings(name: bytes) -> list[bytes]:
    """The spelling of the contract, and the one of libraries that capitalize every header name."""
    return [b"\r\n%b: " % name, b"\r\n%b: " % name.title()]


def _is_length(value: bytes) -> bool:
    return value.isdigit() and len(value) <= 5 and int(value) <= BODY_BYTES_MAX
