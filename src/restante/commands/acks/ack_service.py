"""Accepts ACKs and lease extensions: one write each; the caller gets the result once it is durable.

Does not know HTTP: the ASGI route and the fast lane both pass what they decoded from the request.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from restante.commands.acks.ack_schema import ExtendBody, ParsedAck
from restante.commands.acks.acks import (
    COMMAND_ID_CHARACTERS_MAX,
    AckOptions,
    AckRequest,
    AckResponse,
    AckResult,
    ack_operation,
)
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.collector_budgets import CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.dispatch.extend_lease import LeaseExtension, extend_lease
from restante.commands.errors import CommandNotFound
from restante.core.errors import BadInput, RestanteError, TooManyRequests
from restante.database.database import Database
from restante.database.writer.batching import Failed
from restante.identity.callers import CollectorCaller

Reply = Callable[[AckResponse | BaseException], None]


class AckService:
    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        options: AckOptions,
        counters: CommandCounters,
        budgets: CollectorBudgets,
    ) -> None:
        self._database = database
        self._budgets = budgets
        self._acks = ack_operation(trail, options)
        self._trail = trail
        self._options = options
        self._counters = counters

    def accept(self, caller: CollectorCaller, command_id: str, ack: ParsedAck | BadInput, reply: Reply) -> None:
        """Apply an ACK; `reply` gets the response or the error once the effect of the ACK is durable.

        A BadInput instead of an ACK is the response only if the command exists and belongs to the collector's site.
        """
        if len(command_id) > COMMAND_ID_CHARACTERS_MAX:
            reply(CommandNotFound())
            return
        try:
            self._budgets.admit_ack(caller.device_id, 0 if isinstance(ack, BadInput) else ack.snapshot_bytes)
        except TooManyRequests as error:
            reply(error)
            return
        then = partial(self._reply, caller, reply)
        self._database.submit_batched(self._acks, AckRequest(caller, command_id, ack), then)

    async def apply(self, caller: CollectorCaller, command_id: str, ack: ParsedAck | BadInput) -> AckResponse:
        """Apply an ACK and wait until its effect is durable; the error of a refused ACK is raised."""
        replied: asyncio.Future[AckResponse | BaseException] = asyncio.get_running_loop().create_future()

        def reply(result: AckResponse | BaseException) -> None:
            # The request may have been cancelled meanwhile.
            if not replied.done():
                replied.set_result(result)

        self.accept(caller, command_id, ack, reply)
        response = await replied
        if isinstance(response, BaseException):
            raise response
        return response

    async def extend(self, caller: CollectorCaller, command_id: str, body: ExtendBody) -> LeaseExtension:
        """Extend the lease of a command."""
        self._budgets.admit_ack(caller.device_id, 0)
        result = await self._database.write(extend_lease, self._trail, self._options, caller, command_id, body)
        if isinstance(result, RestanteError):
            self._budgets.count_repeat(caller.device_id)
            raise result
        return result

    def _reply(self, caller: CollectorCaller, reply: Reply, outcome: AckResult | RestanteError | Failed) -> None:
        if isinstance(outcome, Failed):
            reply(outcome.error)
        elif isinstance(outcome, RestanteError):
            if not isinstance(outcome, BadInput):
                self._budgets.count_repeat(caller.device_id)
            reply(outcome)
        else:
            if outcome.is_repeat:
                self._budgets.count_repeat(caller.device_id)
            if not outcome.response.replayed:
                self._counters.count_acked(caller.site_id, outcome.status.value)
            reply(outcome.response)
