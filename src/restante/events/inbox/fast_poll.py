"""The events poll in the fast lane. It returns False for a request that is not plain: the application serves it.

Each version of the API has its own handler, because their errors differ; all of them serve the same poll.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from restante.core.decoding import decode_json
from restante.core.errors import BadInput, TooManyRequests
from restante.core.events.poll_acks import NO_VERDICTS
from restante.events.api_versions import ApiBase
from restante.events.inbox.poll import IDLE, EventPoll, PollResult
from restante.events.inbox.poll_schema import ParsedPoll, PollBody, StrictPollBody, parse_poll
from restante.events.response_format import (
    BY_VERSION,
    INTERACTION_ID,
    IS_INTERACTION_ID,
    OpenBankingFormat,
    accepts_json,
    new_interaction_id,
)
from restante.identity.callers import ClientCaller
from restante.identity.clients.client_tokens import ClientTokens
from restante.web.errors.error_responses import result_response
from restante.web.fast_lane_api import FastConnection, PollPost, bearer_token
from restante.web.response import ApiResponse

# Bodies without acknowledgements are few, and repeated often.
BODIES_MAX = 1024
BODY_BYTES_MAX = 256


def fast_polls(
    poll: EventPoll, tokens: ClientTokens, bases: Sequence[ApiBase], scopes: Collection[str]
) -> list[PollPost]:
    """The handlers of the poll under these bases, one for each version."""
    handlers = {base.version: FastPoll(poll, tokens, scopes, BY_VERSION[base.version]) for base in bases}
    return [PollPost(f"POST {base.path}/events".encode(), INTERACTION_ID, handlers[base.version]) for base in bases]


class FastPoll:
    def __init__(
        self, poll: EventPoll, tokens: ClientTokens, scopes: Collection[str], response_format: OpenBankingFormat
    ) -> None:
        self._poll = poll
        self._scopes = frozenset(scopes)
        self._to_response: Callable[[PollResult], ApiResponse] = partial(result_response, response_format)
        idle = self._to_response(IDLE)
        self._idle_head = b"".join(b"%b: %b\r\n" % header for header in idle.headers)
        self._idle_tail = b"\r\ncontent-length: %d\r\n\r\n%b" % (len(idle.body), idle.body)
        self._cached = tokens.cached
        self._body_type: type[PollBody] = PollBody if poll.options.is_lenient else StrictPollBody
        plain = ParsedPoll(poll.options.events_max, True, NO_VERDICTS)
        self._bodies: dict[bytes, ParsedPoll] = {b"": plain, b"{}": plain}

    def accepts(self, headers: dict[bytes, bytes]) -> bool:
        return accepts_json(headers.get(b"accept", b""))

    def is_repeated(self, body: bytes) -> bool:
        parsed = self._bodies.get(body)
        return parsed is not None and not parsed.waits

    def idle_response(
        self, body: bytes, token: bytes, correlation: bytes | None, date_line: bytes, connection: FastConnection
    ) -> bytes | None:
        parsed = self._bodies.get(body)
        if parsed is None or parsed.waits:
            return None
        interaction_id = new_interaction_id() if correlation is None else correlation
        caller = self._caller(token, connection)
        if caller is None or not IS_INTERACTION_ID(interaction_id) or not self._poll.admit_idle(caller.id):
            return None
        return b"HTTP/1.1 200 OK\r\n%b%bx-fapi-interaction-id: %b%b" % (
            date_line,
            self._idle_head,
            interaction_id,
            self._idle_tail,
        )

    def __call__(self, _name: bytes, body: bytes, headers: dict[bytes, bytes], connection: FastConnection) -> bool:
        caller = self._caller(bearer_token(headers), connection)
        interaction_id = headers.get(INTERACTION_ID)
        if caller is None or (interaction_id is not None and not IS_INTERACTION_ID(interaction_id)):
            return False
        parsed = self._bodies.get(body) or self._parse(body)
        if parsed is None:
            return False
        reply = _Reply(connection, self._to_response, interaction_id or new_interaction_id())
        try:
            self._poll.admit(caller.id)
        except TooManyRequests as error:
            reply(error)
            return True
        parked = self._poll.start(caller.id, parsed, reply)
        if not parked.is_over:
            # Also without a wait: no events are chosen for a client that has disconnected, if that can be avoided.
            connection.wait(self._poll, parked, self._poll.options.wait_seconds)
        return True

    def _caller(self, token: bytes, connection: FastConnection) -> ClientCaller | None:
        caller = self._cached(token, self._poll.now)
        if caller is None or caller.scopes.isdisjoint(self._scopes):
            return None
        # Most tokens are bound to a certificate. If that is not the connection's own, the application decides.
        return caller if caller.thumbprint is None or caller.thumbprint == connection.thumbprint else None

    def _parse(self, body: bytes) -> ParsedPoll | None:
        try:
            parsed = parse_poll(decode_json(body, self._body_type), self._poll.options.events_max)
        except BadInput:
            return None
        if not parsed.verdicts and len(body) <= BODY_BYTES_MAX and len(self._bodies) < BODIES_MAX:
            self._bodies[body] = parsed
        return parsed


class _Reply:
    """As `LaneReply`, with the interaction id."""

    __slots__ = ("_connection", "_interaction_id", "_to_response")

    def __init__(
        self, connection: FastConnection, to_response: Callable[[PollResult], ApiResponse], interaction_id: bytes
    ) -> None:
        self._connection = connection
        self._to_response = to_response
        self._interaction_id = interaction_id

    def __call__(self, result: PollResult) -> None:
        self._connection.send(self._to_response(result).with_headers((INTERACTION_ID, self._interaction_id)))
