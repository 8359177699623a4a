"""Recognising hot requests that have a body, an ACK or a poll for events, in the bytes they arrive as.

As in `request_forms`: whole and fully understood, or left to a real parser. These differ in a name within their path,
in token, length, body and perhaps a correlation id; all else is the form, which is checked once and remembered. Where
only the body is not there yet, which is how many clients send it, the rest is waited for.

A poll that finds nothing is sent again and again with the same body. Then the body is part of the form, and only token
and correlation id are cut out before it is looked up. Must always hold: a form is remembered only after the whole
request was found plain, and what is cut out cannot make it less so: a value ends at the first line end, and is
compared or checked whole afterwards.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum

from restante.server.request_forms import (
    AUTHORIZATION,
    BEARER,
    END,
    FORM_BYTES_MAX,
    FORMS_MAX,
    LINE,
    VERSION,
    plain_headers,
)
from restante.web.hot import HotPost, HotPostHandler, Lane, PollPost, PollPostHandler

# Larger bodies are the application's: they are no everyday ACK.
BODY_BYTES_MAX = 65_536

_NAME = re.compile(rb"[A-Za-z0-9_.~-]+")
_CONTENT_LENGTH = b"\r\nContent-Length: "
_SEEN = frozenset([b"authorization", b"content-length", b"content-type", b"host", b"connection"])
_BEARER_LENGTH = len(BEARER)

# As for the requests of request_forms: who answers, no query, and the headers it sees.
PostRequest = tuple[Callable[[bytes, dict[bytes, bytes], Lane], bool], bytes, dict[bytes, bytes]]
Takes = Callable[[dict[bytes, bytes]], bool]


class Gather(Enum):
    """What to do with a request that is plain and known so far, and whose body has not arrived whole."""

    more = "wait for the rest"


class PostForms:
    def __init__(
        self, posts: Sequence[HotPost], polls: Sequence[PollPost] = (), body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        plain = _Forms({AUTHORIZATION: b"authorization", _CONTENT_LENGTH: b"content-length"}, _SEEN)
        self._body_bytes_max = min(body_bytes_max, BODY_BYTES_MAX)
        self._posts = [(post.before_name, post.behind_name + VERSION, post.handler) for post in posts]
        self._plain = plain
        self._polls = {poll.line + VERSION: (poll, _poll_forms(poll)) for poll in polls}
        self._correlations = list(dict.fromkeys(spelt for poll in polls for spelt in _spellings(poll.correlation)))
        self._poll_lines = tuple(line + LINE for line in self._polls)
        # Whole requests, without token and correlation id: who answers, and the body.
        self._repeated: dict[bytes, tuple[PollPostHandler, bytes]] = {}

    def at_once(self, data: bytes, date_line: bytes, lane: Lane) -> bytes | None:
        """The answer to a poll that has been seen before, if its handler has it at once."""
        found = self._repeated_form(data) if data.startswith(self._poll_lines) else None
        if found is None:
            return None
        form, token, correlation = found
        known = self._repeated.get(form)
        return None if known is None else known[0].at_once(known[1], token, correlation, date_line, lane)

    def recognise(self, data: bytes) -> PostRequest | Gather | None:
        line_end, head_end = data.find(LINE), data.find(END)
        line = data[:line_end]
        found = self._handler_and_name(line)
        if found is None or head_end < 0:
            return None
        handler, name, forms = found
        headers = forms.headers(data, line_end, head_end)
        if headers is None:
            return None
        body = data[head_end + len(END) :]
        length = int(headers[b"content-length"])
        if length > self._body_bytes_max:
            return None
        if len(body) != length:
            return Gather.more if len(body) < length else None
        poll = self._polls.get(line)
        if poll is not None and poll[0].handler.comes_again(body):
            self._remember(data, headers, poll[0], body)

        def answer(_query: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
            return handler(name, body, headers, lane)

        return answer, b"", headers

    def _handler_and_name(self, line: bytes) -> "tuple[HotPostHandler, bytes, _Forms] | None":
        poll = self._polls.get(line)
        if poll is not None:
            return poll[0].handler, b"", poll[1]
        for before, behind, handler in self._posts:
            if line.startswith(before) and line.endswith(behind):
                name = line[len(before) : -len(behind)]
                # A name that is more than a name is for a real parser to see.
                return (handler, name, self._plain) if _NAME.fullmatch(name) else None
        return None

    def _repeated_form(self, data: bytes) -> tuple[bytes, bytes, bytes | None] | None:
        """The request without token and correlation id, and these two."""
        start = data.find(BEARER)
        if start < 0:
            return None
        token = start + _BEARER_LENGTH
        token_end = data.find(LINE, token)
        for spelt in self._correlations:
            at = data.find(spelt)
            if at >= 0:
                value = at + len(spelt)
                end = data.find(LINE, value)
                if token < value:
                    form = data[:token] + data[token_end:value] + data[end:]
                else:
                    form = data[:value] + data[end:token] + data[token_end:]
                return form, data[token:token_end], data[value:end]
        return data[:token] + data[token_end:], data[token:token_end], None

    def _remember(self, data: bytes, headers: dict[bytes, bytes], poll: PollPost, body: bytes) -> None:
        found = self._repeated_form(data)
        if found is None or len(found[0]) > FORM_BYTES_MAX:
            return
        _form, token, correlation = found
        # Under another spelling of its header a value is not cut out, or another one is.
        if headers.get(b"authorization") != b"Bearer " + token or headers.get(poll.correlation) != correlation:
            return
        if len(self._repeated) >= FORMS_MAX:
            self._repeated.clear()
        self._repeated[found[0]] = (poll.handler, body)


class _Forms:
    """The forms of requests that differ in some headers' values; `cut` names these by how they are mostly spelt."""

    def __init__(self, cut: dict[bytes, bytes], seen: frozenset[bytes], takes: Takes = lambda _headers: True) -> None:
        self._cut = cut
        self._cut_names = frozenset(cut.values())
        self._seen = seen
        self._takes = takes
        self._forms: set[bytes] = set()

    def headers(self, data: bytes, start: int, end: int) -> dict[bytes, bytes] | None:
        """What the handler sees, or None where anything is out of the ordinary."""
        form, found = data[start:end], {}
        for spelt, name in self._cut.items():
            before, is_there, rest = form.partition(spelt)
            if is_there:
                found[name], line, behind = rest.partition(LINE)
                form = before + spelt + line + behind
        if form in self._forms:
            return found if _is_length(found.get(b"content-length", b"")) else None
        headers = self._plain(data[: end + len(END)], start)
        # A value under another spelling of its header is part of the form, and the handler must see it.
        if headers is not None and len(form) <= FORM_BYTES_MAX and headers.keys() & self._cut_names == found.keys():
            if len(self._forms) >= FORMS_MAX:
                self._forms.clear()
            self._forms.add(form)
        return headers

    def _plain(self, head: bytes, start: int) -> dict[bytes, bytes] | None:
        headers = plain_headers(head, start, self._seen)
        if headers is None or not _is_length(headers.get(b"content-length", b"")):
            return None
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return headers if media_type == b"application/json" and self._takes(headers) else None


def _poll_forms(poll: PollPost) -> _Forms:
    cut = {AUTHORIZATION: b"authorization", _CONTENT_LENGTH: b"content-length"}
    cut |= dict.fromkeys(_spellings(poll.correlation), poll.correlation)
    return _Forms(cut, _SEEN | {poll.correlation, b"accept"}, poll.handler.takes)


def _spellings(name: bytes) -> list[bytes]:
    """A header as its contract writes it, and as libraries do that spell all headers alike."""
    return [b"\r\n%b: " % name, b"\r\n%b: " % name.title()]


def _is_length(said: bytes) -> bool:
    return said.isdigit() and len(said) <= 5 and int(said) <= BODY_BYTES_MAX
