"""Operator routes: commands, audit.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class CommandView(TypedDict, total=False):
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: Any
    priority: int
    status: str
    created_at: str
    created_by: str
    expires_at: str
    dedupe_key: str | None
    rule_id: int | None
    approved_by: str | None
    approved_at: str | None
    lease_owner: int | None
    lease_until: str | None
    dispatched_at: str | None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: str | None
    acked_at: str | None
    executed_at: str | None
    result_code: str | None
    result_message: str | None
    before_snapshot: Any
    after_snapshot: Any
    superseded_by: str | None
    finished_at: str | None


class CommandViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[CommandView]
    next: int | None


class CommandDetail(TypedDict, total=False):
    """`history`: the newest audit rows of the command, oldest first. `history_next`: if there are older ones, the
    `after` that lists them in the audit trail of this command. `repeated_reports`: what collectors sent again and
    again, which the trail does not record each time.
    """

    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: Any
    priority: int
    status: str
    created_at: str
    created_by: str
    expires_at: str
    dedupe_key: str | None
    rule_id: int | None
    approved_by: str | None
    approved_at: str | None
    lease_owner: int | None
    lease_until: str | None
    dispatched_at: str | None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: str | None
    acked_at: str | None
    executed_at: str | None
    result_code: str | None
    result_message: str | None
    before_snapshot: Any
    after_snapshot: Any
    superseded_by: str | None
    finished_at: str | None
    history: list[AuditView]
    history_next: int | None
    repeated_reports: list[RepeatedReport]


class AuditView(TypedDict, total=False):
    id: int
    site_id: int
    n: int
    at: str
    actor: str
    event: str
    command_id: str | None
    from_state: str | None
    to_state: str | None
    detail: Any
    hash: str


class RepeatedReport(TypedDict, total=False):
    device_id: int
    kind: str
    count: int
    first_at: str
    last_at: str


class CommandBody(TypedDict, total=False):
    """One of many commands."""

    miner_id: int | str | None
    target_ids: list[int | str] | None
    all_miners: bool
    zone_id: int | str | None
    params: Any
    priority: int
    ttl_sec: int | None
    expires_at: str | None
    dedupe_key: str | None
    max_retries: int | None
    supersedes: str | None
    site_id: int | str
    command_type: str


class Created(TypedDict, total=False):
    command_id: str
    status: str
    site_id: int
    zone_id: int
    miner_id: int | None
    miner_count: int
    command_type: str
    priority: int
    created_at: str
    expires_at: str
    dedupe_key: str | None


class CreatedMany(TypedDict, total=False):
    commands: list[Created]
    count: int


class StateCounts(TypedDict, total=False):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, Any]
    counted_at: str


class ItemCount(TypedDict, total=False):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class CommandBulkFilter(TypedDict, total=False):
    """Commands by site, zone, miner, type, state, creator, rule, job and time. None in a field: any value. Without
    `status`, an action finds the commands that it applies to: `cancel` the active ones, `retry` those that
    failed, expired or were cancelled.
    """

    site_id: int | str | None
    zone_id: int | str | None
    miner_id: int | str | None
    rule_id: int | str | None
    command_type: str | None
    status: (
        list[
            Literal[
                "cancelled", "dispatched", "expired", "failed", "pending", "pending_approval", "running", "succeeded"
            ]
        ]
        | None
    )
    created_by: str | None
    job_id: str | None
    created_after: str | None
    created_before: str | None


class JobView(TypedDict, total=False):
    """A job and its progress. `total`: how many rows matched when it was created. `done`, `failed`, `skipped`:
    items. `outcomes`, for actions that only start something: what became of it, by state. A bulk send of commands
    shows how many of them are pending, succeeded or failed.
    """

    job_id: str
    target: str
    action: str
    filter: Any
    params: Any
    state: str
    reason: str | None
    total: int
    done: int
    failed: int
    skipped: int
    rate_per_second: int | None
    created_by: str
    created_at: str
    approved_by: str | None
    started_at: str | None
    finished_at: str | None
    outcomes: dict[str, Any] | None


class Explanation(TypedDict, total=False):
    """`until`: when the wait ends at the latest, if known. `ahead`: how many ready commands of the site come first,
    up to a thousand. All times are UTC.
    """

    command_id: str
    status: str
    waiting_for: Literal[
        "approval",
        "back_off",
        "collector",
        "expired",
        "finished",
        "lease",
        "miner",
        "no_collector",
        "poll",
        "rate_window",
    ]
    sentence: str
    until: str | None
    expires_at: str
    approval_needed: bool
    lease_owner: int | None
    lease_owner_name: str | None
    lease_until: str | None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: str | None
    miner_command_id: str | None
    rate_limit: int | None
    rate_window_sec: int | None
    rate_window_frees_at: str | None
    collector_last_seen_at: str | None
    ahead: int | None
    result_code: str | None
    superseded_by: str | None


class StoredPolicy(TypedDict, total=False):
    """`changed_at` and `changed_by` are null while the settings of the process count."""

    command_types: list[str]
    miners_from: int | None
    window_seconds: int
    changed_at: str | None
    changed_by: str | None


class AuditViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[AuditView]
    next: int | None


class ChainVerdict(TypedDict, total=False):
    intact: bool
    chains: int
    rows: int
    broken: BrokenRow | None


class BrokenRow(TypedDict, total=False):
    """The first row that was changed or is missing."""

    chain: int
    n: int
    reason: str


class SignedHead(TypedDict, total=False):
    restante_audit_head: int
    at: int
    chain: int
    n: int
    hash: str
    signature: str


class Commands(Noun):
    def list(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        status: Literal[
            "pending_approval", "pending", "dispatched", "running", "succeeded", "failed", "expired", "cancelled"
        ]
        | None = None,
        command_type: str | None = None,
        created_by: str | None = None,
        dedupe_key: str | None = None,
        rule_id: int | None = None,
        zone_id: int | None = None,
        device_id: int | None = None,
        result_code: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncGenerator[CommandView, None]:
        """List commands, newest first: all pages."""
        return self.pages(
            "/api/edge/v1/admin/commands",
            {
                "site_id": site_id,
                "miner_id": miner_id,
                "status": status,
                "command_type": command_type,
                "created_by": created_by,
                "dedupe_key": dedupe_key,
                "rule_id": rule_id,
                "zone_id": zone_id,
                "device_id": device_id,
                "result_code": result_code,
                "since": since,
                "until": until,
            },
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        site_id: int | None = None,
        miner_id: int | None = None,
        status: Literal[
            "pending_approval", "pending", "dispatched", "running", "succeeded", "failed", "expired", "cancelled"
        ]
        | None = None,
        command_type: str | None = None,
        created_by: str | None = None,
        dedupe_key: str | None = None,
        rule_id: int | None = None,
        zone_id: int | None = None,
        device_id: int | None = None,
        result_code: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> CommandViewPage:
        """List commands, newest first: one page."""
        found: CommandViewPage = await self.call(
            "GET",
            "/api/edge/v1/admin/commands",
            query={
                "limit": limit,
                "after": after,
                "site_id": site_id,
                "miner_id": miner_id,
                "status": status,
                "command_type": command_type,
                "created_by": created_by,
                "dedupe_key": dedupe_key,
                "rule_id": rule_id,
                "zone_id": zone_id,
                "device_id": device_id,
                "result_code": result_code,
                "since": since,
                "until": until,
            },
        )
        return found

    async def get(self, command_id: str) -> CommandDetail:
        """Show a command and its history."""
        found: CommandDetail = await self.call("GET", f"/api/edge/v1/admin/commands/{self.quoted(command_id)}")
        return found

    async def create(
        self,
        *,
        miner_id: int | str | UnsetType | None = UNSET,
        target_ids: Sequence[int | str] | UnsetType | None = UNSET,
        all_miners: bool | UnsetType = UNSET,
        zone_id: int | str | UnsetType | None = UNSET,
        params: Any | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        ttl_sec: int | UnsetType | None = UNSET,
        expires_at: str | UnsetType | None = UNSET,
        dedupe_key: str | UnsetType | None = UNSET,
        max_retries: int | UnsetType | None = UNSET,
        supersedes: str | UnsetType | None = UNSET,
        site_id: int | str | UnsetType = UNSET,
        command_type: str | UnsetType = UNSET,
        commands: Sequence[CommandBody] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Created:
        """Create commands."""
        found: Created = await self.call(
            "POST",
            "/api/edge/v1/admin/commands",
            body=as_body(
                miner_id=miner_id,
                target_ids=target_ids,
                all_miners=all_miners,
                zone_id=zone_id,
                params=params,
                priority=priority,
                ttl_sec=ttl_sec,
                expires_at=expires_at,
                dedupe_key=dedupe_key,
                max_retries=max_retries,
                supersedes=supersedes,
                site_id=site_id,
                command_type=command_type,
                commands=commands,
            ),
            idempotency_key=idempotency_key,
        )
        return found

    async def counts(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        status: Literal[
            "pending_approval", "pending", "dispatched", "running", "succeeded", "failed", "expired", "cancelled"
        ]
        | None = None,
        command_type: str | None = None,
        created_by: str | None = None,
        dedupe_key: str | None = None,
        rule_id: int | None = None,
        zone_id: int | None = None,
        device_id: int | None = None,
        result_code: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> StateCounts:
        """Count commands by state."""
        found: StateCounts = await self.call(
            "GET",
            "/api/edge/v1/admin/commands/counts",
            query={
                "site_id": site_id,
                "miner_id": miner_id,
                "status": status,
                "command_type": command_type,
                "created_by": created_by,
                "dedupe_key": dedupe_key,
                "rule_id": rule_id,
                "zone_id": zone_id,
                "device_id": device_id,
                "result_code": result_code,
                "since": since,
                "until": until,
            },
        )
        return found

    def export(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        status: Literal[
            "pending_approval", "pending", "dispatched", "running", "succeeded", "failed", "expired", "cancelled"
        ]
        | None = None,
        command_type: str | None = None,
        created_by: str | None = None,
        dedupe_key: str | None = None,
        rule_id: int | None = None,
        zone_id: int | None = None,
        device_id: int | None = None,
        result_code: str | None = None,
        since: str | None = None,
        until: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export commands as a file, newest first."""
        return self.stream(
            "/api/edge/v1/admin/commands/export",
            {
                "site_id": site_id,
                "miner_id": miner_id,
                "status": status,
                "command_type": command_type,
                "created_by": created_by,
                "dedupe_key": dedupe_key,
                "rule_id": rule_id,
                "zone_id": zone_id,
                "device_id": device_id,
                "result_code": result_code,
                "since": since,
                "until": until,
                "format": format,
            },
        )

    async def bulk(
        self,
        *,
        action: Literal["cancel", "retry"],
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        filter: CommandBulkFilter | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Act on all commands that match."""
        found: JobView = await self.call(
            "POST",
            "/api/edge/v1/admin/commands/bulk",
            body=as_body(
                all=all, params=params, dry_run=dry_run, rate_per_second=rate_per_second, action=action, filter=filter
            ),
            idempotency_key=idempotency_key,
        )
        return found

    async def why(self, command_id: str) -> Explanation:
        """Explain what a command waits for."""
        found: Explanation = await self.call("GET", f"/api/edge/v1/admin/commands/{self.quoted(command_id)}/why")
        return found

    async def cancel(self, command_id: str, *, reason: str | UnsetType | None = UNSET) -> CommandView:
        """Cancel a command."""
        found: CommandView = await self.call(
            "POST", f"/api/edge/v1/admin/commands/{self.quoted(command_id)}/cancel", body=as_body(reason=reason)
        )
        return found

    async def approve(self, command_id: str) -> CommandView:
        """Approve a command."""
        found: CommandView = await self.call("POST", f"/api/edge/v1/admin/commands/{self.quoted(command_id)}/approve")
        return found

    async def deny(self, command_id: str, *, reason: str | UnsetType | None = UNSET) -> CommandView:
        """Deny a command."""
        found: CommandView = await self.call(
            "POST", f"/api/edge/v1/admin/commands/{self.quoted(command_id)}/deny", body=as_body(reason=reason)
        )
        return found

    async def policy(self) -> StoredPolicy:
        """Show which commands need approval."""
        found: StoredPolicy = await self.call("GET", "/api/edge/v1/admin/approval-policy")
        return found

    async def set_policy(
        self, *, command_types: Sequence[str], miners_from: int | None, window_seconds: int
    ) -> StoredPolicy:
        """Change which commands need approval."""
        found: StoredPolicy = await self.call(
            "PUT",
            "/api/edge/v1/admin/approval-policy",
            body=as_body(command_types=command_types, miners_from=miners_from, window_seconds=window_seconds),
        )
        return found


class BlockingCommands(BlockingNoun[Commands]):
    list = blocking_iterator(Commands.list)
    list_page = blocking(Commands.list_page)
    get = blocking(Commands.get)
    create = blocking(Commands.create)
    counts = blocking(Commands.counts)
    export = blocking_iterator(Commands.export)
    bulk = blocking(Commands.bulk)
    why = blocking(Commands.why)
    cancel = blocking(Commands.cancel)
    approve = blocking(Commands.approve)
    deny = blocking(Commands.deny)
    policy = blocking(Commands.policy)
    set_policy = blocking(Commands.set_policy)


class Audit(Noun):
    def list(
        self,
        *,
        site_id: int | None = None,
        command_id: str | None = None,
        actor: str | None = None,
        event: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncGenerator[AuditView, None]:
        """Look into the audit trail, newest first: all pages."""
        return self.pages(
            "/api/edge/v1/admin/audit",
            {
                "site_id": site_id,
                "command_id": command_id,
                "actor": actor,
                "event": event,
                "since": since,
                "until": until,
            },
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        site_id: int | None = None,
        command_id: str | None = None,
        actor: str | None = None,
        event: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AuditViewPage:
        """Look into the audit trail, newest first: one page."""
        found: AuditViewPage = await self.call(
            "GET",
            "/api/edge/v1/admin/audit",
            query={
                "limit": limit,
                "after": after,
                "site_id": site_id,
                "command_id": command_id,
                "actor": actor,
                "event": event,
                "since": since,
                "until": until,
            },
        )
        return found

    def export(self, *, site_id: int | None = None) -> AsyncGenerator[bytes, None]:
        """The audit trail as JSON lines."""
        return self.stream("/api/edge/v1/admin/audit/export", {"site_id": site_id})

    async def verify(self) -> ChainVerdict:
        """Prove the audit trail unbroken."""
        found: ChainVerdict = await self.call("GET", "/api/edge/v1/admin/audit/verify")
        return found

    async def verify_since(self, *, since: Sequence[str]) -> ChainVerdict:
        """Prove that the audit trail still has the rows of an earlier export or of anchors."""
        found: ChainVerdict = await self.call("POST", "/api/edge/v1/admin/audit/verify", body=as_body(since=since))
        return found

    async def anchor(self) -> SignedHead:
        """Record the heads of all chains."""
        found: SignedHead = await self.call("POST", "/api/edge/v1/admin/audit/anchor")
        return found


class BlockingAudit(BlockingNoun[Audit]):
    list = blocking_iterator(Audit.list)
    list_page = blocking(Audit.list_page)
    export = blocking_iterator(Audit.export)
    verify = blocking(Audit.verify)
    verify_since = blocking(Audit.verify_since)
    anchor = blocking(Audit.anchor)
