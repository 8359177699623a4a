"""The updates poll in the fast lane. It returns False for a request that is not plain: the application serves it."""

from collections.abc import Callable

from restante.core.cursor import parse_if_none_match
from restante.core.errors import BadInput, RestanteError, TooManyRequests
from restante.identity.callers import DeviceCaller
from restante.identity.devices.device_tokens import DeviceTokens
from restante.updates.polling.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, PollResult, UpdatesPoll
from restante.updates.polling.routes import poll_response, signals_body
from restante.web.fast_lane_api import DeferringConnection, bearer_token

TARGET = b"GET /apiv1/devices/self/updates"
QUERIES_MAX = 1024
_PARAMETERS = {b"cursor", b"limit", b"wait"}

# Cursor, limit, wait.
_Query = tuple[bytes | None, int, int]


class PollReply:
    """Sends the result of a poll. It exists as long as a poll is parked, so it is small.

    Signals are encoded in one step, as one publish may wake very many polls: the bytes are those of `poll_response`.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: DeferringConnection) -> None:
        self._connection = connection

    def __call__(self, result: PollResult | RestanteError) -> None:
        connection = self._connection
        if isinstance(result, PollResult) and result.entries:
            connection.send_bytes(signals_bytes(result, connection.date_line()))
        else:
            connection.send(poll_response(result))


def signals_bytes(result: PollResult, date_line: bytes) -> bytes:
    """All bytes of the response to a poll that gets signals."""
    cursor = result.cursor
    body = signals_body(result)
    return (
        b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\netag: %b\r\ncache-control: no-store\r\n"
        b"x-poll-interval: %d\r\ncontent-length: %d\r\n\r\n%b"
    ) % (date_line, cursor, result.interval_seconds, len(body), body)


class FastPoll:
    is_read_only = True

    def __init__(self, poll: UpdatesPoll, tokens: DeviceTokens) -> None:
        self._poll = poll
        self._known = poll.waiters.known
        self._cached = tokens.cached
        self._verify_soon = tokens.verify_soon
        self._queries: dict[bytes, _Query] = {b"": (None, LIMIT_DEFAULT, 0)}

    def idle_response(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes) -> bytes | None:
        poll = self._poll
        caller = self._cached(token, poll.now)
        parsed = self._queries.get(query)
        if caller is None or parsed is None or parsed[2]:
            return None
        # Most clients quote the cursor that they got unquoted.
        if cursor[:1] == b'"' == cursor[-1:]:
            cursor = cursor[1:-1]
        interval_seconds = poll.admit_idle(caller[0], cursor)
        if interval_seconds is None:
            return None
        return b"HTTP/1.1 204 No Content\r\n%betag: %b\r\ncache-control: no-store\r\nx-poll-interval: %d\r\n\r\n" % (
            date_line,
            cursor,
            interval_seconds,
        )

    def __call__(self, query: bytes, headers: dict[bytes, bytes], connection: DeferringConnection) -> bool:
        poll = self._poll
        token = bearer_token(headers)
        caller = self._cached(token, poll.now)
        parsed = self._queries.get(query) or self._parse_query(query)
        if parsed is None:
            return False
        if caller is None:
            return self._verify_first(token, parsed, headers, connection)
        return self._serve(caller[0], parsed, headers, connection)

    def _verify_first(
        self, token: bytes, parsed: _Query, headers: dict[bytes, bytes], connection: DeferringConnection
    ) -> bool:
        """As `__call__`, for a device that this server does not know yet, as after a restart."""

        def then(caller: DeviceCaller | None) -> None:
            # What cannot be served here has changed nothing: the application repeats all of it.
            if caller is not None and self._serve(caller.device_id, parsed, headers, connection, connection.accept):
                return
            connection.pass_on()

        if not self._verify_soon(token, then):
            return False
        connection.defer()
        return True

    def _serve(
        self,
        device_id: int,
        parsed: _Query,
        headers: dict[bytes, bytes],
        connection: DeferringConnection,
        accept: Callable[[], None] | None = None,
    ) -> bool:
        poll = self._poll
        cursor, limit, wait = parsed
        cursor = headers.get(b"if-none-match", cursor)
        if cursor is not None and self._known.get(device_id) != cursor:
            cursor = self._unquoted_cursor(device_id, cursor)
            if cursor is None:
                return False
        if accept is not None:
            accept()
        try:
            poll.admit(device_id)
        except TooManyRequests as error:
            connection.send(poll_response(error))
            return True
        parked = poll.start(device_id, cursor, limit, wait > 0, PollReply(connection))
        if wait and not parked.is_over:
            connection.wait(poll, parked, wait)
        return True

    def _unquoted_cursor(self, device_id: int, value: bytes) -> bytes | None:
        """The cursor without quotes, None if the value is no cursor."""
        if value[:1] == b'"' and value[-1:] == b'"' and self._known.get(device_id) == value[1:-1]:
            return value[1:-1]
        return _parse_cursor(value)

    def _parse_query(self, query: bytes) -> _Query | None:
        parsed = _parse_query(query)
        # A query with a cursor is rarely repeated; the others are few, and repeated often.
        if parsed is not None and parsed[0] is None and len(self._queries) < QUERIES_MAX:
            self._queries[query] = parsed
        return parsed


def _parse_cursor(value: bytes) -> bytes | None:
    try:
        return str(parse_if_none_match(value.decode("ascii"))).encode()
    except (BadInput, UnicodeDecodeError):
        return None


def _parse_query(query: bytes) -> _Query | None:
    """Cursor, limit and wait, or None if the query is not in its plainest form."""
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
    if cursor is not None and _parse_cursor(cursor) != cursor:
        return None
    return cursor, int(limit), int(wait)
