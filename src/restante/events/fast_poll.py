"""The poll as the fast lane asks for it. Every doubt is answered False: the application then says what is wrong."""

from functools import partial

from restante.core.acknowledgement import NO_VERDICTS
from restante.core.errors import BadInput
from restante.events.poll import IDLE, EventPoll
from restante.events.poll_body import PollBody, ReadPoll, StrictPollBody, read_poll
from restante.events.wire import INTERACTION_ID, IS_INTERACTION_ID, SHAPE, accepts_json, new_interaction_id
from restante.identity.callers import ClientCaller
from restante.identity.client_tokens import ClientTokens
from restante.web.access import SCOPES_NEEDED
from restante.web.answer import Answer
from restante.web.ask import decode_json
from restante.web.hot import Lane, PollPost
from restante.web.routes import Access

# Bodies that say nothing of any event are few, and come again and again.
BODIES_MAX = 1024
BODY_BYTES_MAX = 256

_SCOPES = SCOPES_NEEDED[Access.client]
_IDLE_HEAD = b"".join(b"%b: %b\r\n" % header for header in IDLE.headers)
_IDLE_TAIL = b"\r\ncontent-length: %d\r\n\r\n%b" % (len(IDLE.body), IDLE.body)


class FastPoll:
    def __init__(self, poll: EventPoll, tokens: ClientTokens) -> None:
        self._poll = poll
        self._cached = tokens.cached
        self._body_type: type[PollBody] = PollBody if poll.options.is_lenient else StrictPollBody
        nothing_said = ReadPoll(poll.options.events_max, True, NO_VERDICTS)
        self._bodies: dict[bytes, ReadPoll] = {b"": nothing_said, b"{}": nothing_said}

    def posts(self, bases: list[str]) -> list[PollPost]:
        """Under each of these bases."""
        return [PollPost(f"POST {base}/events".encode(), INTERACTION_ID, self) for base in bases]

    def takes(self, headers: dict[bytes, bytes]) -> bool:
        return accepts_json(headers.get(b"accept", b""))

    def comes_again(self, body: bytes) -> bool:
        read = self._bodies.get(body)
        return read is not None and not read.waits

    def at_once(
        self, body: bytes, token: bytes, correlation: bytes | None, date_line: bytes, lane: Lane
    ) -> bytes | None:
        read = self._bodies.get(body)
        if read is None or read.waits:
            return None
        interaction_id = new_interaction_id() if correlation is None else correlation
        caller = self._caller(token, lane)
        if caller is None or not IS_INTERACTION_ID(interaction_id) or not self._poll.is_idle_at_once(caller.id):
            return None
        return b"HTTP/1.1 200 OK\r\n%b%bx-fapi-interaction-id: %b%b" % (
            date_line,
            _IDLE_HEAD,
            interaction_id,
            _IDLE_TAIL,
        )

    def __call__(self, _name: bytes, body: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
        authorization = headers.get(b"authorization", b"")
        caller = self._caller(authorization[7:], lane) if authorization[:7] == b"Bearer " else None
        interaction_id = headers.get(INTERACTION_ID)
        if caller is None or (interaction_id is not None and not IS_INTERACTION_ID(interaction_id)):
            return False
        read = self._bodies.get(body) or self._read(body)
        if read is None:
            return False
        reply = partial(_send, lane, interaction_id or new_interaction_id())
        refusal = self._poll.admit(caller.id)
        if refusal is not None:
            reply(SHAPE.error(refusal))
            return True
        parked = self._poll.start(caller.id, read, reply)
        if not parked.over:
            # Also without a wait: who hangs up during the look is not handed anything if that can be helped.
            lane.wait(self._poll, parked, self._poll.options.wait_seconds)
        return True

    def _caller(self, token: bytes, lane: Lane) -> ClientCaller | None:
        caller = self._cached(token, self._poll.now)
        if caller is None or caller.scopes.isdisjoint(_SCOPES):
            return None
        # Most tokens are bound to a certificate; where it is not the connection's own, the application judges.
        return caller if caller.thumbprint is None or caller.thumbprint == lane.thumbprint else None

    def _read(self, body: bytes) -> ReadPoll | None:
        try:
            read = read_poll(decode_json(body, self._body_type), self._poll.options.events_max)
        except BadInput:
            return None
        if not read.verdicts and len(body) <= BODY_BYTES_MAX and len(self._bodies) < BODIES_MAX:
            self._bodies[body] = read
        return read


def _send(lane: Lane, interaction_id: bytes, answer: Answer) -> None:
    lane.send(answer.with_headers((INTERACTION_ID, interaction_id)))
