"""The commands poll in the fast lane. It returns False for a request that is not plain: the application serves it."""

from functools import partial

from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.poll_response import CommandPollResponse
from restante.commands.polling.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, CommandPoll
from restante.commands.response_format import RESPONSE_FORMAT
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.web.errors.error_responses import result_response
from restante.web.fast_lane_api import FastConnection, LaneReply, bearer_token

TARGET = b"GET /api/edge/v1/commands/poll"
QUERIES_MAX = 1024
IDLE_MAX = 1024
ZONE_DIGITS_MAX = 18

# Limit, wait, zone.
_Query = tuple[int, int, int | None]

_to_response = partial(result_response, RESPONSE_FORMAT)


class FastPoll:
    is_read_only = False  # a claim leases commands

    def __init__(self, poll: CommandPoll, tokens: CollectorTokens) -> None:
        self._poll = poll
        self._cached = tokens.cached
        self._queries: dict[bytes, _Query] = {b"": (LIMIT_DEFAULT, 0, None)}
        # By the number of rate-limited commands: an idle result, the date line, and the response's bytes with both.
        self._idle: dict[int, tuple[CommandPollResponse, bytes, bytes]] = {}

    def idle_response(self, query: bytes, token: bytes, _cursor: bytes, date_line: bytes) -> bytes | None:
        poll = self._poll
        caller = self._cached(token, poll.now)
        parsed = self._queries.get(query)
        if caller is None or parsed is None or parsed[1]:
            return None
        idle = poll.idle_result(caller, parsed[2])
        return None if idle is None else self._idle_bytes(idle, date_line)

    def __call__(self, query: bytes, headers: dict[bytes, bytes], connection: FastConnection) -> bool:
        poll = self._poll
        caller = self._cached(bearer_token(headers), poll.now)
        parsed = self._queries.get(query) or self._parse_query(query)
        if caller is None or parsed is None:
            return False
        limit, wait, zone_id = parsed
        reply = LaneReply(connection, _to_response)
        parked = poll.start(ClaimRequest(caller, zone_id, limit), wait > 0, reply)
        if not parked.is_over:
            # Also without a wait: a claim is not run for a client that has disconnected, if that can be avoided.
            connection.wait(poll, parked, wait or WAIT_MAX_SECONDS)
        return True

    def _idle_bytes(self, idle: CommandPollResponse, date_line: bytes) -> bytes:
        """All bytes of an idle response; the same for every collector within a second."""
        cached = self._idle.get(idle.rate_limited_count)
        if cached is None or cached[0] is not idle or cached[1] is not date_line:
            response = _to_response(idle)
            headers = b"".join(b"%b: %b\r\n" % header for header in response.headers)
            length = b"content-length: %d\r\n\r\n" % len(response.body)
            written = b"".join((b"HTTP/1.1 200 OK\r\n", date_line, headers, length, response.body))
            if len(self._idle) >= IDLE_MAX:
                self._idle.clear()
            cached = self._idle[idle.rate_limited_count] = (idle, date_line, written)
        return cached[2]

    def _parse_query(self, query: bytes) -> _Query | None:
        parsed = _parse_query(query)
        if parsed is not None and len(self._queries) < QUERIES_MAX:
            self._queries[query] = parsed
        return parsed


def _parse_query(query: bytes) -> _Query | None:
    """Limit, wait and zone, or None if the query is not in its plainest form."""
    found = {b"limit": b"%d" % LIMIT_DEFAULT, b"wait": b"0"}
    seen = set()
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name not in (b"limit", b"wait", b"zone_id") or name in seen or not value.isdigit():
            return None
        if len(value) > ZONE_DIGITS_MAX:
            return None
        seen.add(name)
        found[name] = value
    limit, wait, zone = int(found[b"limit"]), int(found[b"wait"]), found.get(b"zone_id")
    if not 1 <= limit <= LIMIT_MAX or wait > WAIT_MAX_SECONDS or (zone is not None and not int(zone)):
        return None
    return limit, wait, None if zone is None else int(zone)
