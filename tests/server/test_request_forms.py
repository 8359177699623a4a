"""Which bytes are recognised as a hot request, and that remembering forms never makes it more than these."""

import pytest

from restante.server.request_forms import FORM_BYTES_MAX, FORMS_MAX, HotRequest, RequestForms
from restante.web.hot import Lane

TARGET = b"GET /hot"


class Handler:
    """Says True or False when asked in full, and at once what it was given."""

    def __init__(self, is_answering: bool) -> None:
        self._is_answering = is_answering

    def __call__(self, _query: bytes, _headers: dict[bytes, bytes], _lane: Lane) -> bool:
        return self._is_answering

    def at_once(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes) -> bytes | None:
        return b"|".join((query, token, cursor, date_line))


answer, answer_otherwise = Handler(True), Handler(False)


@pytest.fixture
def forms() -> RequestForms:
    return RequestForms({TARGET: answer, b"GET /other": answer_otherwise})


def request(token: bytes = b"Bearer a", cursor: bytes = b"1-1", query: bytes = b"", *, behind: bytes = b"") -> bytes:
    return b"GET /hot%b HTTP/1.1\r\nHost: x\r\nAuthorization: %b\r\nAccept: */*\r\nIf-None-Match: %b\r\n%b\r\n" % (
        query,
        token,
        cursor,
        behind,
    )


def seen(request: HotRequest | None) -> tuple[bytes, bytes, bytes] | None:
    """The query, the token and the cursor of a request that was recognised."""
    if request is None:
        return None
    _, query, headers = request
    return query, headers[b"authorization"], headers[b"if-none-match"]


def test_a_plain_request_is_recognised(forms: RequestForms) -> None:
    recognised = forms.recognise(request(query=b"?wait=3"))
    assert recognised is not None
    assert recognised[0] is answer
    assert seen(recognised) == (b"wait=3", b"Bearer a", b"1-1")


def test_each_target_has_its_handler(forms: RequestForms) -> None:
    recognised = forms.recognise(request().replace(b"/hot", b"/other"))
    assert recognised is not None
    assert recognised[0] is answer_otherwise


def test_a_remembered_form_is_seen_with_each_requests_own_values(forms: RequestForms) -> None:
    forms.recognise(request())
    assert seen(forms.recognise(request(b"Bearer longer", b'W/"2-2"'))) == (b"", b"Bearer longer", b'W/"2-2"')
    assert seen(forms.recognise(request(b"", b""))) == (b"", b"", b"")


def test_a_form_is_remembered_with_its_query(forms: RequestForms) -> None:
    for query in (b"", b"?wait=1", b"?wait=2", b"", b"?wait=1"):
        assert seen(forms.recognise(request(query=query))) == (query[1:], b"Bearer a", b"1-1")


def test_without_a_cursor_it_is_recognised_too(forms: RequestForms) -> None:
    for _ in range(2):
        recognised = forms.recognise(b"GET /hot HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\n\r\n")
        assert recognised is not None
        assert recognised[2][b"authorization"] == b"a"


def test_the_cursor_may_come_before_the_token(forms: RequestForms) -> None:
    for token in (b"a", b"b"):
        raw = b"GET /hot HTTP/1.1\r\nHost: x\r\nIf-None-Match: 1-1\r\nAuthorization: %b\r\n\r\n" % token
        assert seen(forms.recognise(raw)) == (b"", token, b"1-1")


NOT_PLAIN = {
    "nothing": b"",
    "a line end": b"\r\n",
    "two line ends": b"\r\n\r\n",
    "another target": request().replace(b"/hot", b"/cold"),
    "a longer target": request().replace(b"/hot", b"/hotter"),
    "another method": request().replace(b"GET", b"PUT"),
    "an older version": request().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "no end": request()[:-2],
    "half an end": request()[:-1],
    "something behind": request() + b"x",
    "a request behind": request() + request(),
    "a body": request(behind=b"Content-Length: 1\r\n") + b"x",
    "a length": request(behind=b"Content-Length: 0\r\n"),
    "chunks": request(behind=b"Transfer-Encoding: chunked\r\n"),
    "an upgrade": request(behind=b"Upgrade: h2c\r\n"),
    "an expectation": request(behind=b"Expect: 100-continue\r\n"),
    "a farewell": request(behind=b"Connection: close\r\n"),
    "a second token": request(behind=b"Authorization: b\r\n"),
    "a second token in small letters": request(behind=b"authorization: b\r\n"),
    "a second cursor": request(behind=b"If-None-Match: 0-0\r\n"),
    "a second cursor in small letters": request(behind=b"if-none-match: 0-0\r\n"),
    "a second host": request(behind=b"Host: y\r\n"),
    "no host": request().replace(b"Host: x\r\n", b""),
    "an unknown header": request(behind=b"X-Else: 1\r\n"),
    "a folded line": request(behind=b" folded\r\n"),
    "a space before a colon": request(behind=b"Accept : a\r\n"),
    "a line without a colon": request(behind=b"Accept\r\n"),
    "a bare line feed": request(behind=b"Accept: a\nb\r\n"),
    "a bare carriage return": request(behind=b"Accept: a\rb\r\n"),
    "a NUL": request(behind=b"Accept: a\0b\r\n"),
    "a control character": request(behind=b"Accept: a\x1fb\r\n"),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_not_recognised(forms: RequestForms, name: str) -> None:
    assert forms.recognise(NOT_PLAIN[name]) is None


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_nor_is_it_where_forms_are_remembered(forms: RequestForms, name: str) -> None:
    for query in (b"", b"?wait=1"):
        forms.recognise(request(query=query))
    for _ in range(2):
        assert forms.recognise(NOT_PLAIN[name]) is None


@pytest.mark.parametrize("trick", [b"\r\n", b"\r\nX-Else: 1", b"\r\n\r\n", b"\r\nContent-Length: 5", b"\r\nHost: y"])
def test_line_ends_in_a_value_make_another_form(forms: RequestForms, trick: bytes) -> None:
    forms.recognise(request())
    assert forms.recognise(request(token=b"Bearer a" + trick)) is None
    assert forms.recognise(request(cursor=b"1-1" + trick)) is None


@pytest.mark.parametrize("odd", [b"\n", b"\r", b"\0", b"\nHost: y", b"\x0b"])
def test_other_control_characters_stay_in_the_value(forms: RequestForms, odd: bytes) -> None:
    """A handler compares both values whole, so it finds neither; until then nothing has been understood wrongly."""
    forms.recognise(request())
    token, cursor = b"Bearer a" + odd, b"1-1" + odd
    recognised = forms.recognise(request(token, cursor))
    assert recognised is None or seen(recognised) == (b"", token, cursor)


def test_a_request_that_ends_within_its_cursor_is_not_recognised(forms: RequestForms) -> None:
    raw = request()
    forms.recognise(raw)
    assert not [cut for cut in range(len(raw)) if forms.recognise(raw[:cut])]


def test_memory_is_bounded(forms: RequestForms) -> None:
    for n in range(FORMS_MAX + 10):
        assert seen(forms.recognise(request(query=b"?%d" % n))) == (b"%d" % n, b"Bearer a", b"1-1")
        assert len(forms) <= FORMS_MAX


def test_forms_are_remembered_after_a_flood_of_others(forms: RequestForms) -> None:
    for n in range(FORMS_MAX):
        forms.recognise(request(query=b"?%d" % n))
    forms.recognise(request())
    remembered = len(forms)
    assert seen(forms.recognise(request(b"b", b"2-2"))) == (b"", b"b", b"2-2")
    assert len(forms) == remembered <= FORMS_MAX


def test_long_forms_and_those_with_a_cursor_of_their_own_are_not_remembered(forms: RequestForms) -> None:
    assert forms.recognise(request(behind=b"User-Agent: %b\r\n" % (b"a" * FORM_BYTES_MAX))) is not None
    assert forms.recognise(request(query=b"?cursor=1-1")) is not None
    assert len(forms) == 0


def test_values_are_not_remembered(forms: RequestForms) -> None:
    for n in range(100):
        forms.recognise(request(b"Bearer %d" % n, b"%d-1" % n))
    assert len(forms) == 1


def test_only_a_remembered_form_is_answered_at_once(forms: RequestForms) -> None:
    assert forms.at_once(request(), b"date") is None
    forms.recognise(request())
    assert forms.at_once(request(), b"date") == b"|a|1-1|date"
    assert forms.at_once(request(b"Bearer other", b'"2-2"'), b"date") == b'|other|"2-2"|date'


@pytest.mark.parametrize(
    "odd",
    [
        request()[:-1],
        request() + request(),
        request(b"bearer a"),
        request(b"a"),
        request(behind=b"Cookie: a\r\n"),
        request().replace(b"If-None-Match", b"if-none-match"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(b"Bearer a\r\nContent-Length: 3"),
        request(cursor=b"1-1\r\nContent-Length: 3"),
        b"",
        b"\r\nAuthorization: Bearer ",
        b"\r\nAuthorization: Bearer x\r\nIf-None-Match: ",
    ],
)
def test_what_differs_from_it_is_not(forms: RequestForms, odd: bytes) -> None:
    forms.recognise(request())
    assert forms.at_once(odd, b"date") is None
