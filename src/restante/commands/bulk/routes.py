"""Operator routes for bulk actions on miners and commands."""

from collections.abc import Sequence
from typing import Any, Literal

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.bulk.command_actions import CancelCommands, RetryCommands
from restante.commands.bulk.command_target import CommandBulkFilter, CommandTarget
from restante.commands.bulk.miner_target import MinerBulkFilter, MinerTarget, RolloutMiners
from restante.commands.bulk.send import CancelSentCommands, SendCommands
from restante.commands.lifecycle.creation import CreationOptions
from restante.commands.response_format import RESPONSE_FORMAT
from restante.database.database import Database
from restante.identity.grants import Area
from restante.jobs.actions import JobAction
from restante.web.bulk.bulk_requests import BulkHandler, BulkRequest, bulk_options
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

TAG = "edge commands"
PATH = "/api/edge/v1/admin"

_SEND_EXAMPLE = {
    "action": "send",
    "filter": {"site_id": 1},
    "params": {"command_type": "MINER_RESTART", "ttl_sec": 600},
    "rate_per_second": 10,
}
_CANCEL_EXAMPLE = {"action": "cancel", "filter": {"site_id": 1}, "params": {"reason": "maintenance is over"}}


class MinersBulkRequest(BulkRequest, kw_only=True):
    action: Literal["send"]
    filter: MinerBulkFilter = MinerBulkFilter()


class CommandsBulkRequest(BulkRequest, kw_only=True):
    action: Literal["cancel", "retry"]
    filter: CommandBulkFilter = CommandBulkFilter()


def command_job_actions(trail: AuditTrail, options: CreationOptions) -> list[JobAction[Any]]:
    miners, commands = MinerTarget(trail), CommandTarget(trail)
    return [
        SendCommands(miners, trail, options),
        CancelCommands(commands, trail),
        RetryCommands(commands, trail, options),
        CancelSentCommands(RolloutMiners(miners.record), trail),
    ]


class CommandBulkRoutes:
    def __init__(self, database: Database, actions: Sequence[JobAction[Any]]) -> None:
        def handler(target: str) -> BulkHandler:
            own = [action for action in actions if action.target.name == target]
            return BulkHandler(database, own, Access.operate, RESPONSE_FORMAT)

        self._miners = handler(MinerTarget.name)
        self._commands = handler(CommandTarget.name)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.commands)
        send, change = bulk_options(_SEND_EXAMPLE), bulk_options(_CANCEL_EXAMPLE, {"action": "retry", "all": True})
        return [
            group.post("/miners/bulk", self.miners, Access.operate, "Send a command to all miners that match", **send),
            group.post("/commands/bulk", self.commands, Access.operate, "Act on all commands that match", **change),
        ]

    async def miners(self, request: ApiRequest, body: MinersBulkRequest) -> ApiResponse:
        """Each miner gets a command of its own. `GET /apiv1/jobs/{job_id}` counts their states, and
        `GET /apiv1/jobs/{job_id}/items` shows the state of each miner's command."""
        return await self._miners.handle(request, body.action, body.filter, body)

    async def commands(self, request: ApiRequest, body: CommandsBulkRequest) -> ApiResponse:
        """Cancel active commands, or create those anew that failed, expired or were cancelled."""
        return await self._commands.handle(request, body.action, body.filter, body)
