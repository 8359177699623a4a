"""Where ACKs and extensions come in: one write each, answered through a callback once it is durable.

Knows nothing of HTTP framing: the ASGI route and the fast lane both hand in what was read of the request.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import msgspec

from restante.commands.ack_body import ExtendBody, ReadAck
from restante.commands.acks import COMMAND_ID_CHARACTERS_MAX, AckOptions, Said, Taken, taking_acks
from restante.commands.audit import AuditTrail
from restante.commands.extending import Extended, extend
from restante.commands.refusals import refusal_answer
from restante.commands.totals import CommandTotals
from restante.commands.wire import SHAPE, CommandNotFound
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.hot import Failed
from restante.identity.callers import CollectorCaller
from restante.web.answer import Answer, json_answer
from restante.web.handback import Handback

Reply = Callable[[Answer], None]

_encoder = msgspec.json.Encoder()


class AckDesk:
    def __init__(self, database: Database, trail: AuditTrail, options: AckOptions, totals: CommandTotals) -> None:
        self._database = database
        self._handback = Handback(database)
        self._acks = taking_acks(trail, options)
        self._trail = trail
        self._options = options
        self._totals = totals

    def take(self, caller: CollectorCaller, command_id: str, read: ReadAck, reply: Reply) -> None:
        """Answer an ACK, once what it leads to is durable."""
        if len(command_id) > COMMAND_ID_CHARACTERS_MAX:
            reply(SHAPE.error(CommandNotFound()))
        else:
            then = partial(self._answer, caller, reply)
            self._database.submit_hot(self._acks, Said(caller, command_id, read), then)

    def extend(self, caller: CollectorCaller, command_id: str, wanted: ExtendBody, reply: Reply) -> None:
        """Answer the wish for a longer lease."""

        def work(conn: Connection) -> Extended | RestanteError:
            return extend(conn, self._trail, self._options, caller, command_id, wanted)

        def then(future: "Future[Extended | RestanteError]") -> None:
            error = future.exception()
            result = future.result() if error is None else error
            reply(refusal_answer(result) if isinstance(result, BaseException) else SHAPE.success(result))

        self._handback.write(work, then)

    def _answer(self, caller: CollectorCaller, reply: Reply, outcome: Taken | RestanteError | Failed) -> None:
        if isinstance(outcome, Failed):
            reply(refusal_answer(outcome.error))
        elif isinstance(outcome, RestanteError):
            reply(refusal_answer(outcome))
        else:
            if not outcome.answer.replayed:
                self._totals.count_acked(caller.site_id, outcome.status.value)
            reply(json_answer(_encoder.encode(outcome.answer)))
