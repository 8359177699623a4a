"""Bulk actions on commands: cancel those that are active, retry those that ended without success.

A retried command is a new command with the type, miners, parameters and lifetime of the old one: a command that has
ended never changes again.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.bulk.command_target import CommandBulkFilter, CommandTarget
from restante.commands.errors import NO_NUL
from restante.commands.lifecycle import approval_policy, cancellation, creation
from restante.commands.lifecycle.command_types import TARGETS_PARAM
from restante.commands.lifecycle.creation import CommandRequest, CreationOptions
from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.core.commands.canonical import canonical_json
from restante.core.commands.command_states import ACTIVE, TERMINAL, State
from restante.core.errors import Conflict
from restante.database.connection import Connection, Row
from restante.jobs.actions import Batch, BatchResult, ItemResult, JobAction, run_each

RETRIED_STATES = frozenset({State.failed, State.expired, State.cancelled})


class CancelParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(min_length=1, max_length=cancellation.REASON_CHARACTERS_MAX, pattern=NO_NUL)] | None = (
        None
    )


class RetryParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ttl_sec`: the lifetime of the new commands; without it, that of the old ones."""

    ttl_sec: Annotated[int, Meta(ge=1, le=creation.TTL_MAX_SECONDS)] | None = None


class _CommandAction(JobAction[Any]):
    batch_items = 100

    def __init__(self, target: CommandTarget, trail: AuditTrail) -> None:
        self.target = self._commands = target
        self._trail = trail

    def _lock(self, conn: Connection, ids: Sequence[int]) -> dict[int, Row]:
        """Lock the sites of the commands, all at once and in order, then read the commands."""
        sites = {row["site_id"] for row in self._commands.by_ids(conn, list(ids))}
        conn.lock(SITE_LOCK, *sorted(sites))
        return {row["id"]: row for row in self._commands.by_ids(conn, list(ids))}


class CancelCommands(_CommandAction):
    name = "cancel"
    params_type = CancelParams

    def narrow(self, filters: CommandBulkFilter) -> CommandBulkFilter:
        return filters if filters.status is not None else msgspec.structs.replace(filters, status=sorted(ACTIVE))

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        commands = self._lock(conn, ids)

        def cancel(item: int) -> ItemResult:
            command_id, status = commands[item]["command_id"], commands[item]["status"]
            if status in TERMINAL:
                return ItemResult(item, "skipped", command_id, error=f"it is {status}")
            cancellation.cancel(conn, self._trail, command_id, batch.actor, batch.params.reason)
            return ItemResult(item, ref=command_id)

        return run_each(ids, cancel)


class RetryCommands(_CommandAction):
    name = "retry"
    params_type = RetryParams

    def __init__(self, target: CommandTarget, trail: AuditTrail, options: CreationOptions) -> None:
        super().__init__(target, trail)
        self._options = options

    def narrow(self, filters: CommandBulkFilter) -> CommandBulkFilter:
        return (
            filters if filters.status is not None else msgspec.structs.replace(filters, status=sorted(RETRIED_STATES))
        )

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        policy = approval_policy.rules(conn, self._options.approval)
        creation.lock_makers(conn, policy, [batch.actor, *batch.identities])
        commands = self._lock(conn, ids)

        def retry(item: int) -> ItemResult:
            request = _request_of(commands[item], batch.params.ttl_sec)
            created = creation.create(conn, self._trail, request, batch.actor, self._options, batch.identities)
            return ItemResult(item, ref=commands[item]["command_id"], result=created.command_id)

        return run_each(ids, retry)


def _request_of(command: Row, ttl_sec: int | None) -> CommandRequest:
    if command["status"] not in RETRIED_STATES:
        raise Conflict(f"the command is {command['status']}: only one that ended without success is retried")
    params = msgspec.json.decode(command["params"], type=dict[str, Any])
    target_ids = params.pop(TARGETS_PARAM, None)
    lifetime_sec = max(1, (command["expires_at"] - command["created_at"]) // 1000)
    return CommandRequest(
        site_id=command["site_id"],
        miner_id=command["miner_id"],
        target_ids=target_ids,
        zone_id=None,
        command_type=command["command_type"],
        params=canonical_json(params),
        sealed_params=command["sealed_params"],
        priority=command["priority"],
        ttl_sec=ttl_sec or min(lifetime_sec, creation.TTL_MAX_SECONDS),
        dedupe_key=command["dedupe_key"],
        max_retries=command["max_retries"],
    )
