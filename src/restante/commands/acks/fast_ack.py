"""The ACK in the fast lane. It returns False for a request that is not plain: the application serves it."""

import re
from functools import partial

from restante.commands.acks.ack_schema import AckBody, parse_ack
from restante.commands.acks.ack_service import AckService
from restante.commands.polling.poll import CommandPoll
from restante.commands.response_format import RESPONSE_FORMAT
from restante.core.decoding import decode_json
from restante.core.errors import BadInput
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.web.errors.error_responses import result_response
from restante.web.fast_lane_api import FastConnection, LaneReply, bearer_token

BEFORE_NAME = b"POST /api/edge/v1/commands/"
BEHIND_NAME = b"/ack"

_to_response = partial(result_response, RESPONSE_FORMAT)
_COMMAND_ID = re.compile(rb"[A-Za-z0-9_-]{1,128}")


class FastAck:
    def __init__(self, service: AckService, poll: CommandPoll, tokens: CollectorTokens) -> None:
        self._service = service
        # For its clock, which is precise enough for cached tokens.
        self._poll = poll
        self._cached = tokens.cached

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], connection: FastConnection) -> bool:
        caller = self._cached(bearer_token(headers), self._poll.now)
        if caller is None or not _COMMAND_ID.fullmatch(name):
            return False
        try:
            ack = parse_ack(decode_json(body, AckBody), body)
        except BadInput:
            return False
        self._service.accept(caller, name.decode(), ack, LaneReply(connection, _to_response))
        return True
