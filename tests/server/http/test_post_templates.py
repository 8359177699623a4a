"""Recognition of fast POST requests, complete or with an incomplete body."""

from typing import Any

import pytest

from restante.server.http.post_templates import BODY_BYTES_MAX, IncompleteBody, PostTemplates
from restante.server.http.request_templates import TEMPLATES_MAX
from restante.web.fast_lane_api import FastPost

HandlerCall = tuple[bytes, bytes, bytes]


class Handler:
    def __init__(self) -> None:
        self.calls: list[HandlerCall] = []

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], _lane: object) -> bool:
        self.calls.append((name, body, headers[b"authorization"]))
        return True


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
def templates(handler: Handler) -> PostTemplates:
    return PostTemplates([FastPost(b"POST /things/", b"/done", handler)])


def request(name: bytes = b"a-1", body: bytes = b"{}", token: bytes = b"Bearer t", *lines: bytes) -> bytes:
    head = [
        b"POST /things/%b/done HTTP/1.1" % name,
        b"Host: x",
        b"Authorization: " + token,
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *lines,
    ]
    return b"\r\n".join([*head, b"", body])


def handle(templates: PostTemplates, handler: Handler, data: bytes) -> HandlerCall | None:
    recognized: Any = templates.recognize(data)
    if recognized is None:
        return None
    handler_call, query, headers, _closes = recognized
    assert query == b""
    assert handler_call(query, headers, None)
    return handler.calls[-1]


@pytest.mark.parametrize(
    ("data", "closes"),
    [
        (request(), False),
        (request(b"a", b"{}", b"Bearer t", b"Connection: keep-alive"), False),
        (request(b"a", b"{}", b"Bearer t", b"Connection: Close"), True),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), True),
        (request(b"a", b"{}", b"Bearer t", b"Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"), True),
    ],
)
def test_last_request_of_connection_is_recognized(templates: PostTemplates, data: bytes, closes: bool) -> None:
    """Beside the templates of all others, first and again."""
    templates.recognize(request())
    templates.recognize(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    for _ in range(2):
        recognized = templates.recognize(data)
        assert isinstance(recognized, tuple)
        assert recognized[3] is closes


def test_plain_request_is_recognized_repeatedly(templates: PostTemplates, handler: Handler) -> None:
    assert handle(templates, handler, request()) == (b"a-1", b"{}", b"Bearer t")
    assert handle(templates, handler, request(b"b", b'{"a": 1}', b"Bearer u")) == (b"b", b'{"a": 1}', b"Bearer u")
    assert handle(templates, handler, request(b"b", b"")) == (b"b", b"", b"Bearer t")


def test_headers_may_have_any_order(templates: PostTemplates, handler: Handler) -> None:
    data = (
        b"POST /things/a/done HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n"
        b"Host: x\r\nAuthorization: Bearer t\r\n\r\n{}"
    )
    for _ in range(2):
        assert handle(templates, handler, data) == (b"a", b"{}", b"Bearer t")


def test_other_spellings_are_recognized(templates: PostTemplates, handler: Handler) -> None:
    data = request().replace(b"Content-Length", b"content-length").replace(b"Authorization", b"AUTHORIZATION")
    for _ in range(2):
        assert handle(templates, handler, data) == (b"a-1", b"{}", b"Bearer t")


def test_incomplete_body_is_waited_for(templates: PostTemplates) -> None:
    data = request(body=b'{"a": 1}')
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        assert templates.recognize(data[:cut]) is IncompleteBody.wait


@pytest.mark.parametrize(
    "data",
    [
        request()[: request().index(b"\r\n\r\n") + 3],
        request() + b"x",
        request() + request(),
        request(body=b"x" * (BODY_BYTES_MAX + 1)),
        request(b""),
        request(b"a/b"),
        request(b"a b"),
        request(b"a%20"),
        request(b"a?x"),
        request(b"a\nb"),
        request().replace(b"/done", b"/gone"),
        request().replace(b"HTTP/1.1", b"HTTP/1.2"),
        request().replace(b"application/json", b"text/plain"),
        request().replace(b"Content-Type: application/json\r\n", b""),
        request().replace(b"Content-Length: 2\r\n", b""),
        request().replace(b"Content-Length: 2", b"Content-Length: +2"),
        request().replace(b"Content-Length: 2", b"Content-Length: 2, 2"),
        request().replace(b"Content-Length: 2", b"Content-Length: \xc2\xb2"),
        request(b"a", b"{}", b"Bearer t", b"Content-Length: 2"),
        request(b"a", b"{}", b"Bearer t", b"Transfer-Encoding: chunked"),
        request(b"a", b"{}", b"Bearer t", b"Content-Encoding: gzip"),
        request(b"a", b"{}", b"Bearer t", b"Expect: 100-continue"),
        request(b"a", b"{}", b"Bearer t", b"Connection: close, keep-alive"),
        request().replace(b"Host: x\r\n", b""),
        request().replace(b"Host: x", b"Host: x\nA: b"),
        b"POST ",
        b"",
    ],
)
def test_other_requests_are_not_recognized(templates: PostTemplates, data: bytes) -> None:
    templates.recognize(request())
    assert templates.recognize(data) is None


def test_known_template_still_checks_content_length(templates: PostTemplates) -> None:
    templates.recognize(request())
    for length in (b"", b"-1", b"0x2", b"2 ", b"999999"):
        assert templates.recognize(request().replace(b"Content-Length: 2", b"Content-Length: " + length)) is None


def test_number_of_templates_is_limited(templates: PostTemplates, handler: Handler) -> None:
    for n in range(TEMPLATES_MAX + 10):
        templates.recognize(request(b"a", b"{}", b"Bearer t", b"User-Agent: %d" % n))
    templates.recognize(request(b"a", b"{}", b"Bearer t", b"User-Agent: " + b"x" * 5000))
    assert len(templates) <= TEMPLATES_MAX
    assert handle(templates, handler, request()) is not None
