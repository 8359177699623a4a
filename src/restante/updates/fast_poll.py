"""The poll as the fast lane asks for it. Every doubt is answered False: the application then says what is wrong."""

from restante.core.cursor import parse_if_none_match
from restante.core.errors import BadInput
from restante.identity.device_tokens import DeviceTokens
from restante.updates.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, Poll
from restante.updates.wire import SHAPE
from restante.web.hot import Lane

TARGET = b"GET /apiv1/devices/self/updates"
_PARAMETERS = {b"cursor", b"limit", b"wait"}


QUERIES_MAX = 1024

_Wanted = tuple[bytes | None, int, int]
_PLAIN: _Wanted = (None, LIMIT_DEFAULT, 0)


class FastPoll:
    def __init__(self, poll: Poll, tokens: DeviceTokens) -> None:
        self._poll = poll
        self._known = poll.bell.known
        self._cached = tokens.cached
        self._queries: dict[bytes, _Wanted] = {b"": _PLAIN}

    def at_once(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes) -> bytes | None:
        poll = self._poll
        caller = self._cached(token, poll.now)
        wanted = self._queries.get(query)
        if caller is None or wanted is None or wanted[2]:
            return None
        # Most clients quote what they were given bare.
        if cursor[:1] == b'"' == cursor[-1:]:
            cursor = cursor[1:-1]
        return poll.idle_answer(caller[0], cursor, date_line)

    def __call__(self, query: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
        poll = self._poll
        authorization = headers.get(b"authorization", b"")
        caller = self._cached(authorization[7:], poll.now)
        if caller is None or authorization[:7] != b"Bearer ":
            return False
        wanted = self._queries.get(query) or self._parse_query(query)
        if wanted is None:
            return False
        device_id = caller[0]
        cursor, limit, wait = wanted
        cursor = headers.get(b"if-none-match", cursor)
        if cursor is not None and self._known.get(device_id) != cursor:
            cursor = self._bare_cursor(device_id, cursor)
            if cursor is None:
                return False
        refusal = poll.admit(device_id)
        if refusal is not None:
            lane.send(SHAPE.error(refusal))
            return True
        parked = poll.start(device_id, cursor, limit, wait > 0, lane.send)
        if wait and not parked.over:
            lane.wait(poll, parked, wait)
        return True

    def _bare_cursor(self, device_id: int, value: bytes) -> bytes | None:
        """The cursor without quotes, None if it is none. Most clients quote what they were given bare."""
        if value[:1] == b'"' and value[-1:] == b'"' and self._known.get(device_id) == value[1:-1]:
            return value[1:-1]
        return _plain_cursor(value)

    def _parse_query(self, query: bytes) -> _Wanted | None:
        wanted = _parse_query(query)
        # A cursor makes a query one of a kind; the others are few and come again and again.
        if wanted is not None and wanted[0] is None and len(self._queries) < QUERIES_MAX:
            self._queries[query] = wanted
        return wanted


def _plain_cursor(value: bytes) -> bytes | None:
    try:
        return str(parse_if_none_match(value.decode("ascii"))).encode()
    except (BadInput, UnicodeDecodeError):
        return None


def _parse_query(query: bytes) -> _Wanted | None:
    """Cursor, limit and wait, or None where anything is not as plain as can be."""
    if b"%" in query or b"+" in query:
        return None
    found: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        name, equals, value = pair.partition(b"=")
        if name not in _PARAMETERS or name in found or not equals:
            return None
        found[name] = value
    limit, wait = found.get(b"limit", b"%d" % LIMIT_DEFAULT), found.get(b"wait", b"0")
    if not (limit.isdigit() and wait.isdigit() and len(limit) <= 3 and len(wait) <= 2):
        return None
    if not (1 <= int(limit) <= LIMIT_MAX and int(wait) <= WAIT_MAX_SECONDS):
        return None
    cursor = found.get(b"cursor")
    # Quotes are for the header only.
    if cursor is not None and _plain_cursor(cursor) != cursor:
        return None
    return cursor, int(limit), int(wait)
