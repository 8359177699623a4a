"""The ACK as the fast lane asks for it. Every doubt is answered False: the application then says what is wrong."""

import re

from restante.commands.ack_body import AckBody, read_ack
from restante.commands.ack_desk import AckDesk
from restante.commands.poll import CommandPoll
from restante.core.errors import BadInput
from restante.identity.collector_tokens import CollectorTokens
from restante.web.ask import decode_json
from restante.web.hot import Lane

BEFORE_NAME = b"POST /api/edge/v1/commands/"
BEHIND_NAME = b"/ack"

_COMMAND_ID = re.compile(rb"[A-Za-z0-9_-]{1,128}")


class FastAck:
    def __init__(self, desk: AckDesk, poll: CommandPoll, tokens: CollectorTokens) -> None:
        self._desk = desk
        # Its clock is precise enough for remembered tokens.
        self._poll = poll
        self._cached = tokens.cached

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], lane: Lane) -> bool:
        authorization = headers.get(b"authorization", b"")
        caller = self._cached(authorization[7:], self._poll.now)
        if caller is None or authorization[:7] != b"Bearer " or not _COMMAND_ID.fullmatch(name):
            return False
        try:
            ack = read_ack(decode_json(body, AckBody), body)
        except BadInput:
            return False
        self._desk.take(caller, name.decode(), ack, lane.send)
        return True
