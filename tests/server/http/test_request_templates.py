"""Recognition of fast GET requests; known templates never widen it."""

import pytest

from restante.server.http.request_templates import TEMPLATE_BYTES_MAX, TEMPLATES_MAX, FastRequest, RequestTemplates
from restante.web.fast_lane_api import FastConnection

TARGET = b"GET /hot"


class Handler:
    """Returns a fixed result for a request, and its arguments as the response from memory."""

    is_read_only = True

    def __init__(self, accepts: bool) -> None:
        self._accepts = accepts

    def __call__(self, _query: bytes, _headers: dict[bytes, bytes], _lane: FastConnection) -> bool:
        return self._accepts

    def idle_response(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes) -> bytes | None:
        return b"|".join((query, token, cursor, date_line))


class HttpHandler(Handler):
    """Its response from memory has a head and a body."""

    is_read_only = True

    def idle_response(self, _query: bytes, _token: bytes, _cursor: bytes, date_line: bytes) -> bytes | None:
        return b"HTTP/1.1 200 OK\r\n%b\r\nbody\r\n\r\n" % date_line


handler, other_handler = Handler(True), Handler(False)


@pytest.fixture
def templates() -> RequestTemplates:
    return RequestTemplates({TARGET: handler, b"GET /other": other_handler})


def request(token: bytes = b"Bearer a", cursor: bytes = b"1-1", query: bytes = b"", *, extra: bytes = b"") -> bytes:
    return b"GET /hot%b HTTP/1.1\r\nHost: x\r\nAuthorization: %b\r\nAccept: */*\r\nIf-None-Match: %b\r\n%b\r\n" % (
        query,
        token,
        cursor,
        extra,
    )


def values_of(request: FastRequest | None) -> tuple[bytes, bytes, bytes] | None:
    """Query, token and cursor of a recognized request."""
    if request is None:
        return None
    _, query, headers, _closes = request
    return query, headers[b"authorization"], headers[b"if-none-match"]


def test_plain_request_is_recognized(templates: RequestTemplates) -> None:
    recognized = templates.recognize(request(query=b"?wait=3"))
    assert recognized is not None
    assert recognized[0] is handler
    assert values_of(recognized) == (b"wait=3", b"Bearer a", b"1-1")


def test_each_target_has_its_handler(templates: RequestTemplates) -> None:
    recognized = templates.recognize(request().replace(b"/hot", b"/other"))
    assert recognized is not None
    assert recognized[0] is other_handler


def test_known_template_yields_values_of_each_request(templates: RequestTemplates) -> None:
    templates.recognize(request())
    assert values_of(templates.recognize(request(b"Bearer longer", b'W/"2-2"'))) == (b"", b"Bearer longer", b'W/"2-2"')
    assert values_of(templates.recognize(request(b"", b""))) == (b"", b"", b"")


def test_template_includes_query(templates: RequestTemplates) -> None:
    for query in (b"", b"?wait=1", b"?wait=2", b"", b"?wait=1"):
        assert values_of(templates.recognize(request(query=query))) == (query[1:], b"Bearer a", b"1-1")


def test_request_without_cursor_is_recognized(templates: RequestTemplates) -> None:
    for _ in range(2):
        recognized = templates.recognize(b"GET /hot HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\n\r\n")
        assert recognized is not None
        assert recognized[2][b"authorization"] == b"a"


def test_the_cursor_may_come_before_the_token(templates: RequestTemplates) -> None:
    for token in (b"a", b"b"):
        raw = b"GET /hot HTTP/1.1\r\nHost: x\r\nIf-None-Match: 1-1\r\nAuthorization: %b\r\n\r\n" % token
        assert values_of(templates.recognize(raw)) == (b"", token, b"1-1")


NOT_PLAIN = {
    "nothing": b"",
    "a line end": b"\r\n",
    "two line ends": b"\r\n\r\n",
    "another target": request().replace(b"/hot", b"/cold"),
    "a longer target": request().replace(b"/hot", b"/hotter"),
    "another method": request().replace(b"GET", b"PUT"),
    "an older version": request().replace(b"HTTP/1.1", b"HTTP/0.9"),
    "no end": request()[:-2],
    "half an end": request()[:-1],
    "something extra": request() + b"x",
    "a request extra": request() + request(),
    "a body": request(extra=b"Content-Length: 1\r\n") + b"x",
    "a length": request(extra=b"Content-Length: 0\r\n"),
    "chunks": request(extra=b"Transfer-Encoding: chunked\r\n"),
    "an upgrade": request(extra=b"Upgrade: h2c\r\n"),
    "an expectation": request(extra=b"Expect: 100-continue\r\n"),
    "connection with two values": request(extra=b"Connection: close, keep-alive\r\n"),
    "a second token": request(extra=b"Authorization: b\r\n"),
    "a second token in small letters": request(extra=b"authorization: b\r\n"),
    "a second cursor": request(extra=b"If-None-Match: 0-0\r\n"),
    "a second cursor in small letters": request(extra=b"if-none-match: 0-0\r\n"),
    "a second host": request(extra=b"Host: y\r\n"),
    "no host": request().replace(b"Host: x\r\n", b""),
    "an unknown header": request(extra=b"X-Else: 1\r\n"),
    "a folded line": request(extra=b" folded\r\n"),
    "a space before a colon": request(extra=b"Accept : a\r\n"),
    "a line without a colon": request(extra=b"Accept\r\n"),
    "a bare line feed": request(extra=b"Accept: a\nb\r\n"),
    "a bare carriage return": request(extra=b"Accept: a\rb\r\n"),
    "a NUL": request(extra=b"Accept: a\0b\r\n"),
    "a control character": request(extra=b"Accept: a\x1fb\r\n"),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_request_that_is_not_plain_is_not_recognized(templates: RequestTemplates, name: str) -> None:
    assert templates.recognize(NOT_PLAIN[name]) is None


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_request_that_is_not_plain_is_not_recognized_beside_known_templates(
    templates: RequestTemplates, name: str
) -> None:
    for query in (b"", b"?wait=1"):
        templates.recognize(request(query=query))
    for _ in range(2):
        assert templates.recognize(NOT_PLAIN[name]) is None


@pytest.mark.parametrize("injected", [b"\r\n", b"\r\nX-Else: 1", b"\r\n\r\n", b"\r\nContent-Length: 5", b"\r\nHost: y"])
def test_line_end_in_value_is_not_recognized(templates: RequestTemplates, injected: bytes) -> None:
    templates.recognize(request())
    assert templates.recognize(request(token=b"Bearer a" + injected)) is None
    assert templates.recognize(request(cursor=b"1-1" + injected)) is None


@pytest.mark.parametrize("odd", [b"\n", b"\r", b"\0", b"\nHost: y", b"\x0b"])
def test_other_control_characters_stay_in_value(templates: RequestTemplates, odd: bytes) -> None:
    """The handler compares both values as a whole and finds neither, so nothing was misread."""
    templates.recognize(request())
    token, cursor = b"Bearer a" + odd, b"1-1" + odd
    recognized = templates.recognize(request(token, cursor))
    assert recognized is None or values_of(recognized) == (b"", token, cursor)


def test_incomplete_request_is_not_recognized(templates: RequestTemplates) -> None:
    raw = request()
    templates.recognize(raw)
    assert not [cut for cut in range(len(raw)) if templates.recognize(raw[:cut])]


def test_number_of_templates_is_limited(templates: RequestTemplates) -> None:
    for n in range(TEMPLATES_MAX + 10):
        assert values_of(templates.recognize(request(query=b"?%d" % n))) == (b"%d" % n, b"Bearer a", b"1-1")
        assert len(templates) <= TEMPLATES_MAX


def test_templates_are_learnt_again_after_flood(templates: RequestTemplates) -> None:
    for n in range(TEMPLATES_MAX):
        templates.recognize(request(query=b"?%d" % n))
    templates.recognize(request())
    remembered = len(templates)
    assert values_of(templates.recognize(request(b"b", b"2-2"))) == (b"", b"b", b"2-2")
    assert len(templates) == remembered <= TEMPLATES_MAX


def test_long_templates_and_templates_with_cursor_are_not_remembered(templates: RequestTemplates) -> None:
    assert templates.recognize(request(extra=b"User-Agent: %b\r\n" % (b"a" * TEMPLATE_BYTES_MAX))) is not None
    assert templates.recognize(request(query=b"?cursor=1-1")) is not None
    assert len(templates) == 0


def test_values_are_not_part_of_template(templates: RequestTemplates) -> None:
    for n in range(100):
        templates.recognize(request(b"Bearer %d" % n, b"%d-1" % n))
    assert len(templates) == 1


def test_only_known_template_gets_response_from_memory(templates: RequestTemplates) -> None:
    assert templates.respond_from_memory(request(), b"date") is None
    templates.recognize(request())
    assert templates.respond_from_memory(request(), b"date") == (b"|a|1-1|date", False)
    assert templates.respond_from_memory(request(b"Bearer other", b'"2-2"'), b"date") == (b'|other|"2-2"|date', False)


CLOSING = {
    "Connection: close": request(extra=b"Connection: close\r\n"),
    "Connection: Close": request(extra=b"Connection: Close\r\n"),
    "HTTP/1.0": request().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0 and keep-alive": request(extra=b"Connection: keep-alive\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
}


@pytest.mark.parametrize("name", CLOSING)
def test_last_request_of_connection_is_recognized_beside_known_templates(name: str) -> None:
    templates = RequestTemplates({TARGET: HttpHandler(True)})
    templates.recognize(request())
    for _ in range(2):
        recognized = templates.recognize(CLOSING[name])
        assert recognized is not None
        assert recognized[3]
    assert templates.respond_from_memory(CLOSING[name], b"date: now\r\n") == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\nconnection: close\r\n\r\nbody\r\n\r\n",
        True,
    )
    assert templates.respond_from_memory(request(), b"date: now\r\n") == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\n\r\nbody\r\n\r\n",
        False,
    )


@pytest.mark.parametrize(
    "odd",
    [
        request()[:-1],
        request() + request(),
        request(b"bearer a"),
        request(b"a"),
        request(extra=b"Cookie: a\r\n"),
        request().replace(b"If-None-Match", b"if-none-match"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(b"Bearer a\r\nContent-Length: 3"),
        request(cursor=b"1-1\r\nContent-Length: 3"),
        b"",
        b"\r\nAuthorization: Bearer ",
        b"\r\nAuthorization: Bearer x\r\nIf-None-Match: ",
    ],
)
def test_other_request_gets_no_response_from_memory(templates: RequestTemplates, odd: bytes) -> None:
    templates.recognize(request())
    assert templates.respond_from_memory(odd, b"date") is None
