"""The poll as the fast lane asks for it. Every doubt is answered False: the application then says what is wrong."""

from restante.commands.claims import Claim
from restante.commands.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, CommandPoll
from restante.identity.collector_tokens import CollectorTokens
from restante.web.hot import Lane

TARGET = b"GET /api/edge/v1/commands/poll"
QUERIES_MAX = 1024
ZONE_DIGITS_MAX = 18

# Limit, wait, zone.
_Wanted = tuple[int, int, int | None]


class FastPoll:
    def __init__(self, poll: CommandPoll, tokens: CollectorTokens) -> None:
        self._poll = poll
        self._cached = tokens.cached
        self._queries: dict[bytes, _Wanted] = {b"": (LIMIT_DEFAULT, 0, None)}

    def at_once(self, query: bytes, token: bytes, _cursor: bytes, date_line: bytes) -> bytes | None:
        poll = self._poll
        caller = self._cached(token, poll.now)
        wanted = self._queries.get(query)
        if caller is None or wanted is None or wanted[1]:
            return None
        answer = poll.idle_at_once(caller, wanted[2])
        return None if answer is None else poll.idle_bytes(answer, date_line)

    def __call__(self, query: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
        poll = self._poll
        authorization = headers.get(b"authorization", b"")
        caller = self._cached(authorization[7:], poll.now)
        if caller is None or authorization[:7] != b"Bearer ":
            return False
        wanted = self._queries.get(query) or self._parse_query(query)
        if wanted is None:
            return False
        limit, wait, zone_id = wanted
        parked = poll.start(Claim(caller, zone_id, limit), wait > 0, lane.send)
        if not parked.over:
            # Also without a wait: who hangs up during the claim is not handed anything if that can be helped.
            lane.wait(poll, parked, wait or WAIT_MAX_SECONDS)
        return True

    def _parse_query(self, query: bytes) -> _Wanted | None:
        wanted = _parse_query(query)
        if wanted is not None and len(self._queries) < QUERIES_MAX:
            self._queries[query] = wanted
        return wanted


def _parse_query(query: bytes) -> _Wanted | None:
    """Limit, wait and zone, or None where anything is not as plain as can be."""
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
