"""Recognising hot requests in the bytes they arrive as.

A request is recognised only if it arrived whole and is fully understood: a request line that a hot handler stands
behind, headers from a short list, each at most once, no body, nothing behind it. Anything else is None: a real parser
is to look at it.

A fleet's requests differ in two places only, the token and the cursor. So the form of a request, which is all of it
but those two values, is checked once and remembered; the next request of that form costs a few searches in C. A form
with a cursor in its query will not come again, and is not remembered.
Must always hold: a form is remembered only after the whole request was found plain, and a token or cursor cannot make
it less so, because neither can hold a line end (they are cut at the first) and both are compared whole afterwards.
"""

import re
from collections.abc import Mapping

from restante.web.hot import HotHandler

# Anybody can send forms, so what they may fill is little, and filling it only makes the real ones be learnt again.
FORMS_MAX = 4096
FORM_BYTES_MAX = 1024

LINE = b"\r\n"
END = b"\r\n\r\n"
VERSION = b" HTTP/1.1"
# What no part of a request may hold, beside tabs and the ends of its lines.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
AUTHORIZATION = b"\r\nAuthorization: "
BEARER = b"\r\nAuthorization: Bearer "
_IF_NONE_MATCH = b"\r\nIf-None-Match: "
AUTHORIZATION_LENGTH = len(AUTHORIZATION)
_BEARER_LENGTH = len(BEARER)
_IF_NONE_MATCH_LENGTH = len(_IF_NONE_MATCH)

# The headers a hot request may have: those a handler sees, and those that change nothing.
SEEN = frozenset([b"authorization", b"if-none-match", b"host", b"connection"])
_PASSED_OVER = frozenset(
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


# Who answers, the query, and the headers the handler sees.
HotRequest = tuple[HotHandler, bytes, dict[bytes, bytes]]


class RequestForms:
    def __init__(self, hot: Mapping[bytes, HotHandler]) -> None:
        self._hot = hot
        self._forms: dict[bytes, tuple[HotHandler, bytes]] = {}

    def at_once(self, data: bytes, date_line: bytes) -> bytes | None:
        """The answer to a request of a remembered form, if its handler has it at once."""
        start = data.find(BEARER)
        if start < 0:
            return None
        token = start + _BEARER_LENGTH
        token_end = data.find(LINE, token)
        cursor_start = data.find(_IF_NONE_MATCH, start)
        if cursor_start < 0:
            known = self._forms.get(data[: token - 7] + data[token_end:])
            return None if known is None else known[0].at_once(known[1], data[token:token_end], b"", date_line)
        cursor = cursor_start + _IF_NONE_MATCH_LENGTH
        cursor_end = data.find(LINE, cursor)
        # The scheme is not part of a remembered form: it is where the value begins.
        known = self._forms.get(data[: token - 7] + data[token_end:cursor] + data[cursor_end:])
        if known is None:
            return None
        return known[0].at_once(known[1], data[token:token_end], data[cursor:cursor_end], date_line)

    def recognise(self, data: bytes) -> HotRequest | None:
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
        form = data[:value] + data[end:cursor_value] + data[cursor_end:]
        known = self._forms.get(form)
        if known is not None:
            headers = {b"authorization": data[value:end], b"if-none-match": data[cursor_value:cursor_end]}
            return known[0], known[1], headers
        request = self._parse(data)
        if request is not None:
            self._remember(form, request)
        return request

    def _recognise_by_token(self, data: bytes, value: int) -> HotRequest | None:
        """As above, for requests without a cursor in the header where it is looked for."""
        end = data.find(LINE, value)
        form = data[:value] + data[end:]
        known = self._forms.get(form)
        if known is not None:
            return known[0], known[1], {b"authorization": data[value:end]}
        request = self._parse(data)
        # A cursor under another spelling of its header is part of the form, and the handler must see it.
        if request is not None and b"if-none-match" not in request[2]:
            self._remember(form, request)
        return request

    def _remember(self, form: bytes, request: HotRequest) -> None:
        if len(form) <= FORM_BYTES_MAX and b"cursor=" not in request[1]:
            if len(self._forms) >= FORMS_MAX:
                self._forms.clear()
            self._forms[form] = request[:2]

    def __len__(self) -> int:
        """How many forms are remembered."""
        return len(self._forms)

    def _parse(self, data: bytes) -> HotRequest | None:
        end = data.find(LINE)
        if data[end - len(VERSION) : end] != VERSION:
            return None
        target, _, query = data[: end - len(VERSION)].partition(b"?")
        handler = self._hot.get(target)
        if handler is None:
            return None
        headers = plain_headers(data, end)
        return None if headers is None else (handler, query, headers)


def plain_headers(data: bytes, start: int, seen: frozenset[bytes] = SEEN) -> dict[bytes, bytes] | None:
    """The headers a handler sees, or None where anything is out of the ordinary."""
    if data.find(END, start) != len(data) - len(END):
        return None
    lines = data[start + 2 : -4].split(LINE)
    # A bare line feed or carriage return inside a line would be read otherwise by other parsers.
    if data.count(b"\n") != len(lines) + 2 or data.count(b"\r") != len(lines) + 2 or CONTROL.search(data):
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if name in _PASSED_OVER and colon and name not in seen:
            continue
        if name not in seen or name in headers or not colon:
            return None
        headers[name] = value.strip(b" \t")
    if b"host" not in headers or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return headers
