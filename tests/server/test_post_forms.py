"""Which bytes are recognised as a hot request with a body, and when the rest of it is waited for."""

from typing import Any

import pytest

from restante.server.post_forms import BODY_BYTES_MAX, Gather, PostForms
from restante.server.request_forms import FORMS_MAX
from restante.web.hot import HotPost

Seen = tuple[bytes, bytes, bytes]


class Handler:
    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], _lane: object) -> bool:
        self.seen.append((name, body, headers[b"authorization"]))
        return True


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
def forms(handler: Handler) -> PostForms:
    return PostForms([HotPost(b"POST /things/", b"/done", handler)])


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


def seen(forms: PostForms, handler: Handler, data: bytes) -> Seen | None:
    recognised: Any = forms.recognise(data)
    if recognised is None:
        return None
    answer, query, headers = recognised
    assert query == b""
    assert answer(query, headers, None)
    return handler.seen[-1]


def test_a_plain_request_is_recognised_again_and_again(forms: PostForms, handler: Handler) -> None:
    assert seen(forms, handler, request()) == (b"a-1", b"{}", b"Bearer t")
    assert seen(forms, handler, request(b"b", b'{"a": 1}', b"Bearer u")) == (b"b", b'{"a": 1}', b"Bearer u")
    assert seen(forms, handler, request(b"b", b"")) == (b"b", b"", b"Bearer t")


def test_headers_may_come_in_any_order(forms: PostForms, handler: Handler) -> None:
    data = (
        b"POST /things/a/done HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n"
        b"Host: x\r\nAuthorization: Bearer t\r\n\r\n{}"
    )
    for _ in range(2):
        assert seen(forms, handler, data) == (b"a", b"{}", b"Bearer t")


def test_other_spellings_are_recognised(forms: PostForms, handler: Handler) -> None:
    data = request().replace(b"Content-Length", b"content-length").replace(b"Authorization", b"AUTHORIZATION")
    for _ in range(2):
        assert seen(forms, handler, data) == (b"a-1", b"{}", b"Bearer t")


def test_a_body_that_is_not_whole_is_waited_for(forms: PostForms) -> None:
    data = request(body=b'{"a": 1}')
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        assert forms.recognise(data[:cut]) is Gather.more


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
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
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
        request(b"a", b"{}", b"Bearer t", b"Connection: close"),
        request().replace(b"Host: x\r\n", b""),
        request().replace(b"Host: x", b"Host: x\nA: b"),
        b"POST ",
        b"",
    ],
)
def test_anything_else_is_for_a_real_parser(forms: PostForms, data: bytes) -> None:
    forms.recognise(request())
    assert forms.recognise(data) is None


def test_a_remembered_form_makes_no_length_good(forms: PostForms) -> None:
    forms.recognise(request())
    for length in (b"", b"-1", b"0x2", b"2 ", b"999999"):
        assert forms.recognise(request().replace(b"Content-Length: 2", b"Content-Length: " + length)) is None


def test_what_is_remembered_is_bounded(forms: PostForms, handler: Handler) -> None:
    for n in range(FORMS_MAX + 10):
        forms.recognise(request(b"a", b"{}", b"Bearer t", b"User-Agent: %d" % n))
    forms.recognise(request(b"a", b"{}", b"Bearer t", b"User-Agent: " + b"x" * 5000))
    assert len(forms._plain._forms) <= FORMS_MAX
    assert seen(forms, handler, request()) is not None
