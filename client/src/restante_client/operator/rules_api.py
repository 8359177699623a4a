"""Operator routes: rules, telemetry, safety events.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class Rule(TypedDict, total=False):
    id: int
    name: str
    site_id: int
    miner_ids: list[int] | None
    trigger_type: str
    trigger_metric: str | None
    trigger_operator: str | None
    trigger_value: float | None
    trigger_duration_seconds: int
    action_type: str
    action_parameters: dict[str, Any]
    cooldown_seconds: int
    priority: int
    enabled: bool
    created_by: str
    created_at: str
    updated_at: str


class RulePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Rule]
    next: int | None


class RuleState(TypedDict, total=False):
    """The state of a rule for a miner: since when its condition holds, when it last fired, and the outcome."""

    miner_id: int
    holds_since: str | None
    last_fired_at: str | None
    last_outcome: str | None
    last_command_id: str | None
    quiet_until: str | None


class RuleStatePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[RuleState]
    next: int | None


class LatestRecord(TypedDict, total=False):
    miner_id: int
    site_id: int
    miner_known: bool
    ts: str
    received_at: str
    record: Any


class LatestRecordPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[LatestRecord]
    next: int | None


class MinerTelemetry(TypedDict, total=False):
    miner_id: int
    site_id: int
    miner_known: bool
    latest: LatestRecord | None
    history: list[PastRecord]


class PastRecord(TypedDict, total=False):
    ts: str
    record: Any


class SafetyEvent(TypedDict, total=False):
    id: int
    site_id: int
    device_id: int
    miner_id: int
    action: str
    reason: str
    temp_max: float | None
    ts: str
    snapshot_json: Any
    received_at: str
    miner_known: bool


class SafetyEventPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[SafetyEvent]
    next: int | None


class StateCounts(TypedDict, total=False):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, Any]
    counted_at: str


class ItemCount(TypedDict, total=False):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class Rules(Noun):
    def list(self, *, site_id: int | None = None, enabled: bool | None = None) -> AsyncGenerator[Rule, None]:
        """List rules: all pages."""
        return self.pages("/api/edge/v1/admin/rules", {"site_id": site_id, "enabled": enabled})

    async def list_page(
        self,
        *,
        site_id: int | None = None,
        enabled: bool | None = None,
        limit: int | None = None,
        after: int | None = None,
    ) -> RulePage:
        """List rules: one page."""
        found: RulePage = await self.call(
            "GET",
            "/api/edge/v1/admin/rules",
            query={"site_id": site_id, "enabled": enabled, "limit": limit, "after": after},
        )
        return found

    async def get(self, rule_id: int) -> Rule:
        """Show a rule."""
        found: Rule = await self.call("GET", f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}")
        return found

    async def create(
        self,
        *,
        name: str,
        site_id: int | str,
        trigger_type: Literal["offline", "threshold"],
        action_type: str,
        miner_ids: Sequence[int | str] | UnsetType | None = UNSET,
        trigger_metric: str | UnsetType | None = UNSET,
        trigger_operator: Literal["<", "<=", "==", ">", ">="] | UnsetType | None = UNSET,
        trigger_value: float | UnsetType | None = UNSET,
        trigger_duration_seconds: int | UnsetType = UNSET,
        action_parameters: Any | UnsetType = UNSET,
        cooldown_seconds: int | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
    ) -> Rule:
        """Create a rule."""
        found: Rule = await self.call(
            "POST",
            "/api/edge/v1/admin/rules",
            body=as_body(
                name=name,
                site_id=site_id,
                trigger_type=trigger_type,
                action_type=action_type,
                miner_ids=miner_ids,
                trigger_metric=trigger_metric,
                trigger_operator=trigger_operator,
                trigger_value=trigger_value,
                trigger_duration_seconds=trigger_duration_seconds,
                action_parameters=action_parameters,
                cooldown_seconds=cooldown_seconds,
                priority=priority,
                enabled=enabled,
            ),
        )
        return found

    async def replace(
        self,
        rule_id: int,
        *,
        name: str,
        site_id: int | str,
        trigger_type: Literal["offline", "threshold"],
        action_type: str,
        miner_ids: Sequence[int | str] | UnsetType | None = UNSET,
        trigger_metric: str | UnsetType | None = UNSET,
        trigger_operator: Literal["<", "<=", "==", ">", ">="] | UnsetType | None = UNSET,
        trigger_value: float | UnsetType | None = UNSET,
        trigger_duration_seconds: int | UnsetType = UNSET,
        action_parameters: Any | UnsetType = UNSET,
        cooldown_seconds: int | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
    ) -> Rule:
        """Replace a rule."""
        found: Rule = await self.call(
            "PUT",
            f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}",
            body=as_body(
                name=name,
                site_id=site_id,
                trigger_type=trigger_type,
                action_type=action_type,
                miner_ids=miner_ids,
                trigger_metric=trigger_metric,
                trigger_operator=trigger_operator,
                trigger_value=trigger_value,
                trigger_duration_seconds=trigger_duration_seconds,
                action_parameters=action_parameters,
                cooldown_seconds=cooldown_seconds,
                priority=priority,
                enabled=enabled,
            ),
        )
        return found

    async def update(
        self,
        rule_id: int,
        *,
        name: str | UnsetType = UNSET,
        trigger_type: Literal["offline", "threshold"] | UnsetType = UNSET,
        action_type: str | UnsetType = UNSET,
        miner_ids: Sequence[int | str] | UnsetType | None = UNSET,
        trigger_metric: str | UnsetType | None = UNSET,
        trigger_operator: Literal["<", "<=", "==", ">", ">="] | UnsetType | None = UNSET,
        trigger_value: float | UnsetType | None = UNSET,
        trigger_duration_seconds: int | UnsetType = UNSET,
        action_parameters: Any | UnsetType = UNSET,
        cooldown_seconds: int | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        enabled: bool | UnsetType = UNSET,
    ) -> Rule:
        """Change some fields of a rule."""
        found: Rule = await self.call(
            "PATCH",
            f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}",
            body=as_body(
                name=name,
                trigger_type=trigger_type,
                action_type=action_type,
                miner_ids=miner_ids,
                trigger_metric=trigger_metric,
                trigger_operator=trigger_operator,
                trigger_value=trigger_value,
                trigger_duration_seconds=trigger_duration_seconds,
                action_parameters=action_parameters,
                cooldown_seconds=cooldown_seconds,
                priority=priority,
                enabled=enabled,
            ),
        )
        return found

    async def delete(self, rule_id: int) -> None:
        """Delete a rule."""
        await self.call("DELETE", f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}")

    async def enable(self, rule_id: int) -> Rule:
        """Enable a rule."""
        found: Rule = await self.call("POST", f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}/enable")
        return found

    async def disable(self, rule_id: int) -> Rule:
        """Disable a rule."""
        found: Rule = await self.call("POST", f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}/disable")
        return found

    def states(self, rule_id: int) -> AsyncGenerator[RuleState, None]:
        """List the states of a rule, one for each miner that has one: all pages."""
        return self.pages(f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}/states", {})

    async def states_page(self, rule_id: int, *, limit: int | None = None, after: int | None = None) -> RuleStatePage:
        """List the states of a rule, one for each miner that has one: one page."""
        found: RuleStatePage = await self.call(
            "GET", f"/api/edge/v1/admin/rules/{self.quoted(rule_id)}/states", query={"limit": limit, "after": after}
        )
        return found


class BlockingRules(BlockingNoun[Rules]):
    list = blocking_iterator(Rules.list)
    list_page = blocking(Rules.list_page)
    get = blocking(Rules.get)
    create = blocking(Rules.create)
    replace = blocking(Rules.replace)
    update = blocking(Rules.update)
    delete = blocking(Rules.delete)
    enable = blocking(Rules.enable)
    disable = blocking(Rules.disable)
    states = blocking_iterator(Rules.states)
    states_page = blocking(Rules.states_page)


class Telemetry(Noun):
    def list(
        self, *, site_id: int | None = None, miner_known: bool | None = None
    ) -> AsyncGenerator[LatestRecord, None]:
        """List the newest record of each miner of a site: all pages."""
        return self.pages("/api/edge/v1/admin/telemetry", {"site_id": site_id, "miner_known": miner_known})

    async def list_page(
        self,
        *,
        site_id: int | None = None,
        miner_known: bool | None = None,
        limit: int | None = None,
        after: int | None = None,
    ) -> LatestRecordPage:
        """List the newest record of each miner of a site: one page."""
        found: LatestRecordPage = await self.call(
            "GET",
            "/api/edge/v1/admin/telemetry",
            query={"site_id": site_id, "miner_known": miner_known, "limit": limit, "after": after},
        )
        return found

    async def get(self, miner_id: int, *, limit: int | None = None, site_id: int | None = None) -> MinerTelemetry:
        """Show a miner's newest record and its last records, newest first."""
        found: MinerTelemetry = await self.call(
            "GET", f"/api/edge/v1/admin/telemetry/{self.quoted(miner_id)}", query={"limit": limit, "site_id": site_id}
        )
        return found


class BlockingTelemetry(BlockingNoun[Telemetry]):
    list = blocking_iterator(Telemetry.list)
    list_page = blocking(Telemetry.list_page)
    get = blocking(Telemetry.get)


class SafetyEvents(Noun):
    def list(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        device_id: int | None = None,
        action: Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"] | None = None,
        since: str | None = None,
        until: str | None = None,
        miner_known: bool | None = None,
    ) -> AsyncGenerator[SafetyEvent, None]:
        """List safety events, newest first: all pages."""
        return self.pages(
            "/api/edge/v1/admin/safety-events",
            {
                "site_id": site_id,
                "miner_id": miner_id,
                "device_id": device_id,
                "action": action,
                "since": since,
                "until": until,
                "miner_known": miner_known,
            },
        )

    async def list_page(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        device_id: int | None = None,
        action: Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"] | None = None,
        since: str | None = None,
        until: str | None = None,
        miner_known: bool | None = None,
        limit: int | None = None,
        after: int | None = None,
    ) -> SafetyEventPage:
        """List safety events, newest first: one page."""
        found: SafetyEventPage = await self.call(
            "GET",
            "/api/edge/v1/admin/safety-events",
            query={
                "site_id": site_id,
                "miner_id": miner_id,
                "device_id": device_id,
                "action": action,
                "since": since,
                "until": until,
                "miner_known": miner_known,
                "limit": limit,
                "after": after,
            },
        )
        return found

    async def counts(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        device_id: int | None = None,
        action: Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"] | None = None,
        since: str | None = None,
        until: str | None = None,
        miner_known: bool | None = None,
    ) -> StateCounts:
        """Count safety events by action."""
        found: StateCounts = await self.call(
            "GET",
            "/api/edge/v1/admin/safety-events/counts",
            query={
                "site_id": site_id,
                "miner_id": miner_id,
                "device_id": device_id,
                "action": action,
                "since": since,
                "until": until,
                "miner_known": miner_known,
            },
        )
        return found

    def export(
        self,
        *,
        site_id: int | None = None,
        miner_id: int | None = None,
        device_id: int | None = None,
        action: Literal["THERMAL_SHUTDOWN", "EMERGENCY_STOP", "POWER_LIMIT", "FAN_FAILURE"] | None = None,
        since: str | None = None,
        until: str | None = None,
        miner_known: bool | None = None,
        format: Literal["csv", "json"] | None = None,
        limit: int | None = None,
        after: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export safety events as a file."""
        return self.stream(
            "/api/edge/v1/admin/safety-events/export",
            {
                "site_id": site_id,
                "miner_id": miner_id,
                "device_id": device_id,
                "action": action,
                "since": since,
                "until": until,
                "miner_known": miner_known,
                "format": format,
                "limit": limit,
                "after": after,
            },
        )


class BlockingSafetyEvents(BlockingNoun[SafetyEvents]):
    list = blocking_iterator(SafetyEvents.list)
    list_page = blocking(SafetyEvents.list_page)
    counts = blocking(SafetyEvents.counts)
    export = blocking_iterator(SafetyEvents.export)
