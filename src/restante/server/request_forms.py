"""Recognising hot requests in the bytes they arrive as.

A request is recognised only if it arrived whole and is fully understood: a request line that a hot handler stands
behind, headers from a short list, each at most once, no body, nothing behind it. Anything else is None: a real parser
is to look at it.

A fleet's requests differ in two places only, the token and the cursor. So the form of a request, which is all of it
but those two values, is checked once and remembered; the next request of that form costs a few searches in C.
Must always hold: a form is remembered only after the whole request was found plain, and a token or cursor cannot make
it less so, because neither can hold a line end (they are cut at the first) and both are compared whole afterwards.
"""

from collections.abc import Mapping

from restante.web.hot import HotHandler

FORMS_MAX = 4096

_LINE = b"\r\n"
_END = b"\r\n\r\n"
_VERSION = b" HTTP/1.1"
_AUTHORIZATION = b"\r\nAuthorization: "
_IF_NONE_MATCH = b"\r\nIf-None-Match: "
_AUTHORIZATION_LENGTH = len(_AUTHORIZATION)
_IF_NONE_MATCH_LENGTH = len(_IF_NONE_MATCH)

# The headers a hot request may have: those a handler sees, and those that change nothing.
_SEEN = frozenset([b"authorization", b"if-none-match", b"host", b"connection"])
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

    def recognise(self, data: bytes) -> HotRequest | None:
        start = data.find(_AUTHORIZATION)
        cursor_start = data.find(_IF_NONE_MATCH, start)
        if start < 0 or cursor_start < 0:
            return self._parse(data)
        value = start + _AUTHORIZATION_LENGTH
        end = data.find(_LINE, value)
        cursor_value = cursor_start + _IF_NONE_MATCH_LENGTH
        cursor_end = data.find(_LINE, cursor_value)
        form = data[:value] + data[end:cursor_value] + data[cursor_end:]
        known = self._forms.get(form)
        if known is not None:
            headers = {b"authorization": data[value:end], b"if-none-match": data[cursor_value:cursor_end]}
            return known[0], known[1], headers
        request = self._parse(data)
        if request is not None and len(self._forms) < FORMS_MAX:
            self._forms[form] = request[:2]
        return request

    def _parse(self, data: bytes) -> HotRequest | None:
        end = data.find(_LINE)
        if data[end - len(_VERSION) : end] != _VERSION:
            return None
        target, _, query = data[: end - len(_VERSION)].partition(b"?")
        handler = self._hot.get(target)
        if handler is None:
            return None
        headers = _plain_headers(data, end)
        return None if headers is None else (handler, query, headers)


def _plain_headers(data: bytes, start: int) -> dict[bytes, bytes] | None:
    """The headers a handler sees, or None where anything is out of the ordinary."""
    if data.find(_END, start) != len(data) - len(_END):
        return None
    lines = data[start + 2 : -4].split(_LINE)
    # A bare line feed or carriage return inside a line would be read otherwise by other parsers.
    if data.count(b"\n") != len(lines) + 2 or data.count(b"\r") != len(lines) + 2 or b"\0" in data:
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if name in _PASSED_OVER and colon:
            continue
        if name not in _SEEN or name in headers or not colon:
            return None
        headers[name] = value.strip(b" \t")
    if b"host" not in headers or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return headers
