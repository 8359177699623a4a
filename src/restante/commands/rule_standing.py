"""The rules of one site in memory, and where each stands with each miner: what evaluation works on.

    rule_revisions.revision ── the same? ──▶ what is in memory is what the database holds
                             ── another ──▶ read it all anew

Knows nothing of transactions or of firing. Must always hold: after each commit the standings in memory and in
`rule_states` say the same, except for the newest sample of a stretch, which telemetry_latest has anyway.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from restante.core.holding import Holding
from restante.core.thresholds import Threshold, Thresholds, is_reported
from restante.database.connection import Row

OFFLINE = "offline"


@dataclass(frozen=True, slots=True, eq=False)
class ActiveRule:
    """A rule as it is evaluated. `threshold` None: it is about silence."""

    id: int
    site_id: int
    miner_ids: frozenset[int] | None
    trigger_type: str
    threshold: Threshold | None
    duration_ms: int
    action_type: str
    action_parameters: bytes
    cooldown_ms: int
    priority: int

    @classmethod
    def of(cls, row: Row) -> "ActiveRule":
        is_offline = row["trigger_type"] == OFFLINE
        return cls(
            id=row["id"],
            site_id=row["site_id"],
            miner_ids=frozenset(msgspec.json.decode(row["miner_ids"])) if row["miner_ids"] else None,
            trigger_type=row["trigger_type"],
            threshold=None
            if is_offline
            else Threshold(row["trigger_metric"], row["trigger_operator"], row["trigger_value"]),
            duration_ms=row["trigger_duration_seconds"] * 1000,
            action_type=row["action_type"],
            action_parameters=row["action_parameters"].encode(),
            cooldown_ms=row["cooldown_seconds"] * 1000,
            priority=row["priority"],
        )

    def is_for(self, miner_id: int) -> bool:
        return self.miner_ids is None or miner_id in self.miner_ids

    def is_told_about_by(self, fields: dict[str, Any]) -> bool:
        """Whether a record has anything to say about the rule's condition: about silence, every record has."""
        return self.threshold is None or is_reported(fields, self.threshold.metric)


@dataclass(slots=True, eq=False)
class Standing:
    """Where one rule stands with one miner."""

    rule: ActiveRule
    miner_id: int
    holding: Holding | None = None
    last_fired_at: int | None = None
    last_outcome: str | None = None
    last_command_id: str | None = None
    quiet_until: int = 0

    @classmethod
    def of(cls, rule: ActiveRule, row: Row) -> "Standing":
        since, ts, heard_at = row["holds_since"], row["ts"], row["received_at"]
        return cls(
            rule,
            row["miner_id"],
            None if since is None or ts is None else Holding(since, max(since, ts), heard_at),
            row["last_fired_at"],
            row["last_outcome"],
            row["last_command_id"],
            row["quiet_until"] or 0,
        )

    @property
    def is_blank(self) -> bool:
        return self.holding is None and self.last_fired_at is None and not self.quiet_until

    def columns(self) -> dict[str, Any]:
        return {
            "rule_id": self.rule.id,
            "miner_id": self.miner_id,
            "holds_since": None if self.holding is None else self.holding.since,
            "last_fired_at": self.last_fired_at,
            "last_outcome": self.last_outcome,
            "last_command_id": self.last_command_id,
            "quiet_until": self.quiet_until or None,
        }


@dataclass(slots=True)
class Plan:
    """The rules that are evaluated for a miner; miners with the same rules share one."""

    thresholds: Thresholds[ActiveRule]
    rule_count: int


@dataclass(slots=True)
class SiteRules:
    site_id: int
    revision: int | None
    rules: list[ActiveRule]
    # miner id → rule id → standing
    standings: dict[int, dict[int, Standing]] = field(default_factory=dict)
    # Before this moment no rule becomes due that no sample makes due.
    due_at: int = 0
    offline_rules: list[ActiveRule] = field(default_factory=list)
    _plans: dict[frozenset[int], Plan] = field(default_factory=dict)
    _plan_of_miner: dict[int, Plan] = field(default_factory=dict)

    @classmethod
    def read(cls, site_id: int, revision: int | None, rules: Iterable[Row], standings: Iterable[Row]) -> "SiteRules":
        site = cls(site_id, revision, [ActiveRule.of(row) for row in rules])
        site.offline_rules = [rule for rule in site.rules if rule.threshold is None]
        by_id = {rule.id: rule for rule in site.rules}
        for row in standings:
            site.put(Standing.of(by_id[row["rule_id"]], row))
        return site

    def put(self, standing: Standing) -> Standing:
        self.standings.setdefault(standing.miner_id, {})[standing.rule.id] = standing
        return standing

    def standing(self, rule: ActiveRule, miner_id: int) -> Standing:
        found = self.standings.get(miner_id, {}).get(rule.id)
        return found or self.put(Standing(rule, miner_id))

    def drop(self, standing: Standing) -> None:
        of_miner = self.standings[standing.miner_id]
        del of_miner[standing.rule.id]
        if not of_miner:
            del self.standings[standing.miner_id]

    def plan_for(self, miner_id: int) -> Plan:
        plan = self._plan_of_miner.get(miner_id)
        if plan is None:
            plan = self._plan_of_miner[miner_id] = self._shared_plan(miner_id)
        return plan

    def _shared_plan(self, miner_id: int) -> Plan:
        watching = [rule for rule in self.rules if rule.threshold is not None and rule.is_for(miner_id)]
        key = frozenset(rule.id for rule in watching)
        if key not in self._plans:
            tagged = [(rule.threshold, rule) for rule in watching if rule.threshold is not None]
            self._plans[key] = Plan(Thresholds(tagged), len(watching))
        return self._plans[key]
