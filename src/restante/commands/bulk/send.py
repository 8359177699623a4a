"""Bulk send: one command for each miner that matches, so that the result of each miner is visible.

    job item: miner ─▶ its command ─▶ pending · dispatched · succeeded · failed …    (outcomes of the job)

The approval policy counts the miners of the whole job. A job that needs approval waits for one approval; its commands
need none then. The policy is applied again to each command, because other commands of the same maker count too.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.bulk.miner_target import MinerBulkFilter, MinerTarget, RolloutMiners
from restante.commands.lifecycle import approval, approval_policy, cancellation, creation, secret_params
from restante.commands.lifecycle.command_types import checked_params, standard_type
from restante.commands.lifecycle.creation import RETRIES_MAX, TTL_MAX_SECONDS, CommandRequest, CreationOptions
from restante.commands.lifecycle.ordering import PRIORITY_MAX, SITE_LOCK
from restante.commands.sites.miners import Miner
from restante.core.commands.canonical import canonical_json
from restante.core.commands.command_states import TERMINAL, State
from restante.core.errors import BadInput, NotFound
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.jobs.actions import (
    Batch,
    BatchResult,
    ItemResult,
    JobAction,
    JobCaller,
    Laggard,
    RolloutAction,
    StoredParams,
    WaveCounts,
    run_each,
)
from restante.jobs.rollouts.rollout_items import results_of

SQL = queries_beside(__file__)


class SendParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The command for each miner. `dedupe_key` is extended by the miner's id, so that each miner has its own key."""

    command_type: str
    params: msgspec.Raw | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] = 0
    ttl_sec: Annotated[int, Meta(ge=1, le=TTL_MAX_SECONDS)] | None = None
    expires_at: str | None = None
    max_retries: Annotated[int, Meta(ge=0, le=RETRIES_MAX)] | None = None
    dedupe_key: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[ -~]+\Z")] | None = None


class SendCommands(RolloutAction[SendParams]):
    name = "send"
    roll_back = (RolloutMiners.name, "cancel_commands")
    params_type = SendParams
    batch_items = 100

    def __init__(self, target: MinerTarget, trail: AuditTrail, options: CreationOptions) -> None:
        self.target = self._miners = target
        self._trail = trail
        self._options = options

    def check(self, conn: Connection, filters: MinerBulkFilter, params: SendParams, caller: JobCaller) -> StoredParams:  # noqa: ARG002
        command_type = standard_type(params.command_type, "params.command_type")
        raw = b"{}" if isinstance(params.params, UnsetType) else bytes(params.params)
        checked = checked_params(command_type, raw, "params.params")
        split = secret_params.split(self._options.box, command_type, checked, field="params.params")
        if params.expires_at is not None:
            if params.ttl_sec is not None:
                raise BadInput("params.expires_at", "either this or ttl_sec")
            expires_at = parse_iso(params.expires_at, "params.expires_at")
            if not conn.now_ms < expires_at <= conn.now_ms + TTL_MAX_SECONDS * 1000:
                raise BadInput("params.expires_at", "a time to come, within a year")
        shown = msgspec.structs.replace(
            params, command_type=command_type, params=msgspec.Raw(canonical_json(split.shown))
        )
        return StoredParams(msgspec.json.encode(shown), split.sealed)

    def request_digest(self, body: bytes) -> bytes:
        # Parameters may have secrets, and an unkeyed digest would let its reader test guesses.
        return self._options.box.body_mac.digest(body)

    def needs_approval(self, conn: Connection, filters: MinerBulkFilter, params: SendParams, caller: JobCaller) -> bool:
        command_type = standard_type(params.command_type, "params.command_type")
        policy = approval_policy.rules(conn, self._options.approval)
        if not policy.is_ever_needed:
            return False
        count = self._miners.count(conn, filters, caller.allowed)
        return approval.is_needed(conn, policy, [caller.actor, *caller.identities], command_type, count)

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        policy = approval_policy.rules(conn, self._options.approval)
        creation.lock_makers(conn, policy, [batch.actor, *batch.identities])
        miners = {miner.id: miner for miner in self._miners.by_ids(conn, list(ids))}
        # All at once and in order: two transactions that lock sites one by one may wait for each other.
        conn.lock(SITE_LOCK, *sorted({miner.site_id for miner in miners.values()}))
        return run_each(ids, lambda item: self._send(conn, batch, miners[item]))

    def _send(self, conn: Connection, batch: Batch, miner: Miner) -> ItemResult:
        params: SendParams = batch.params
        request = CommandRequest(
            site_id=miner.site_id,
            miner_id=miner.id,
            command_type=params.command_type,
            params=b"{}" if isinstance(params.params, UnsetType) else bytes(params.params),
            sealed_params=batch.sealed,
            priority=params.priority,
            ttl_sec=params.ttl_sec,
            expires_at_ms=None if params.expires_at is None else parse_iso(params.expires_at, "params.expires_at"),
            dedupe_key=None if params.dedupe_key is None else f"{params.dedupe_key}:{miner.id}",
            max_retries=params.max_retries,
        )
        created = creation.create(
            conn, self._trail, request, batch.actor, self._options, batch.identities, approved_by=batch.approved_by
        )
        return ItemResult(miner.id, ref=miner.name, result=created.command_id)

    def outcomes(self, conn: Connection, job: int) -> dict[str, int]:
        return {row["status"]: row["commands"] for row in conn.all(SQL.outcomes, job=job)}

    def wave_counts(self, conn: Connection, job: int) -> WaveCounts:
        counted = self.outcomes(conn, job)
        ended = {status: counted.pop(status, 0) for status in sorted(TERMINAL)}
        succeeded = ended.pop(State.succeeded)
        return WaveCounts(succeeded, sum(ended.values()), sum(counted.values()))

    def laggards(self, conn: Connection, rollout: int, after: int, limit: int) -> list[Laggard]:
        rows = conn.all(SQL.laggards, rollout=rollout, after=after, limit=limit)
        return [
            Laggard(
                item=row["item"],
                name=row["ref"],
                wave=row["wave"],
                state="failed" if row["state"] == "failed" or row["status"] in TERMINAL else "waiting",
                detail=row["error"] or f"command {row['result']} is {row['status']}",
            )
            for row in rows
        ]

    def item_outcomes(self, conn: Connection, results: Sequence[str]) -> Mapping[str, str]:
        found = ((command_id, conn.one(SQL.status, command_id=command_id)) for command_id in results)
        return {command_id: row["status"] for command_id, row in found if row is not None}


class NoParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The action has no parameters."""


class CancelSentCommands(JobAction[NoParams]):
    """Rolls a rollout of a command back: cancels those commands that have not ended."""

    name = "cancel_commands"
    params_type = NoParams
    batch_items = 100

    def __init__(self, target: RolloutMiners, trail: AuditTrail) -> None:
        self.target = target
        self._trail = trail

    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        results = results_of(conn, batch.rollout or 0, msgspec.json.encode(list(ids)).decode())
        commands = {item: conn.one(SQL.command, command_id=results.get(item)) for item in ids}
        conn.lock(SITE_LOCK, *sorted({row["site_id"] for row in commands.values() if row is not None}))

        def cancel(item: int) -> ItemResult:
            command = commands[item]
            if command is None:
                raise NotFound("there is no such command")
            command_id = command["command_id"]
            status = cancellation.find(conn, command_id)["status"]
            if status in TERMINAL:
                return ItemResult(item, "skipped", command_id, error=f"it is {status}")
            cancellation.cancel(conn, self._trail, command_id, batch.actor, "its rollout was rolled back")
            return ItemResult(item, ref=command_id)

        return run_each(ids, cancel)
