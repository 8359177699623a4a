"""Recognising hot requests that have a body, an ACK for one, in the bytes they arrive as.

As in `request_forms`: whole and fully understood, or left to a real parser. These differ in a name within their path,
in token, length and body; all else is the form, which is checked once and remembered. Where only the body is not there
yet, which is how many clients send it, the rest is waited for.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum

from restante.server.request_forms import (
    AUTHORIZATION,
    AUTHORIZATION_LENGTH,
    END,
    FORM_BYTES_MAX,
    FORMS_MAX,
    LINE,
    VERSION,
    plain_headers,
)
from restante.web.hot import HotPost, HotPostHandler, Lane

# Larger bodies are the application's: they are no everyday ACK.
BODY_BYTES_MAX = 65_536

_NAME = re.compile(rb"[A-Za-z0-9_.~-]+")
_CONTENT_LENGTH = b"\r\nContent-Length: "
_CONTENT_LENGTH_LENGTH = len(_CONTENT_LENGTH)
_SEEN = frozenset([b"authorization", b"content-length", b"content-type", b"host", b"connection"])


# As for the requests of request_forms: who answers, no query, and the headers it sees.
PostRequest = tuple[Callable[[bytes, dict[bytes, bytes], Lane], bool], bytes, dict[bytes, bytes]]


class Gather(Enum):
    """What to do with a request that is plain and known so far, and whose body has not arrived whole."""

    more = "wait for the rest"


class PostForms:
    def __init__(self, posts: Sequence[HotPost]) -> None:
        self._posts = [(post.before_name, post.behind_name + VERSION, post.handler) for post in posts]
        self._forms: set[bytes] = set()

    def recognise(self, data: bytes) -> PostRequest | Gather | None:
        line_end, head_end = data.find(LINE), data.find(END)
        found = self._handler_and_name(data[:line_end])
        if found is None or head_end < 0:
            return None
        headers = self._headers(data, line_end, head_end)
        if headers is None:
            return None
        handler, name = found
        body = data[head_end + len(END) :]
        length = int(headers[b"content-length"])
        if len(body) != length:
            return Gather.more if len(body) < length else None

        def answer(_query: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
            return handler(name, body, headers, lane)

        return answer, b"", headers

    def _handler_and_name(self, line: bytes) -> tuple[HotPostHandler, bytes] | None:
        for before, behind, handler in self._posts:
            if line.startswith(before) and line.endswith(behind):
                name = line[len(before) : -len(behind)]
                # A name that is more than a name is for a real parser to see.
                return (handler, name) if _NAME.fullmatch(name) else None
        return None

    def _headers(self, data: bytes, start: int, end: int) -> dict[bytes, bytes] | None:
        """Token and length, or None where anything is out of the ordinary."""
        token, length = data.find(AUTHORIZATION, start, end), data.find(_CONTENT_LENGTH, start, end)
        if token < 0 or length < 0:
            return _plain_post_headers(data[: end + len(END)], start)
        token_end = data.find(LINE, token + AUTHORIZATION_LENGTH)
        length_end = data.find(LINE, length + _CONTENT_LENGTH_LENGTH)
        token_value, length_value = token + AUTHORIZATION_LENGTH, length + _CONTENT_LENGTH_LENGTH
        if token < length:
            form = data[start:token_value] + data[token_end:length_value] + data[length_end:end]
        else:
            form = data[start:length_value] + data[length_end:token_value] + data[token_end:end]
        said = data[length_value:length_end]
        if form in self._forms:
            seen = {b"authorization": data[token_value:token_end], b"content-length": said}
            return seen if _is_length(said) else None
        headers = _plain_post_headers(data[: end + len(END)], start)
        if headers is not None and len(form) <= FORM_BYTES_MAX:
            if len(self._forms) >= FORMS_MAX:
                self._forms.clear()
            self._forms.add(form)
        return headers


def _plain_post_headers(head: bytes, start: int) -> dict[bytes, bytes] | None:
    headers = plain_headers(head, start, _SEEN)
    if headers is None or not _is_length(headers.get(b"content-length", b"")):
        return None
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return headers if media_type == b"application/json" else None


def _is_length(said: bytes) -> bool:
    return said.isdigit() and len(said) <= 5 and int(said) <= BODY_BYTES_MAX
