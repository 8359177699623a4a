"""The rules of one site in memory, and the state of each rule for each miner. Rule evaluation works on this.

    rule_revisions.revision ── unchanged ──▶ the memory equals the database
                            ── changed ────▶ read everything again

This module does not know about transactions or rule actions.

Invariant: after each commit, the states in memory equal those in `rule_states`, except for the newest sample of a run,
which `telemetry_latest` holds anyway. A run is an unbroken series of samples for which the rule's condition holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from restante.core.commands.condition_run import ConditionRun
from restante.core.commands.thresholds import Threshold, Thresholds, is_reported
from restante.database.connection import Row

OFFLINE = "offline"


@dataclass(frozen=True, slots=True, eq=False)
class ActiveRule:
    """A rule as it is evaluated. `threshold` None means an offline rule."""

    id: int
    site_id: int
    miner_ids: frozenset[int] | None
    trigger_type: str
    threshold: Threshold | None
    duration_ms: int
    action_type: str
    action_parameters: bytes
    sealed_params: bytes | None
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
            sealed_params=row["sealed_params"],
            cooldown_ms=row["cooldown_seconds"] * 1000,
            priority=row["priority"],
        )

    def is_for(self, miner_id: int) -> bool:
        return self.miner_ids is None or miner_id in self.miner_ids

    def is_decided_by(self, fields: dict[str, Any]) -> bool:
        """Whether a record shows if the rule's condition holds. For an offline rule, every record does."""
        return self.threshold is None or is_reported(fields, self.threshold.metric)


@dataclass(slots=True, eq=False)
class MinerRuleState:
    """The state of one rule for one miner."""

    rule: ActiveRule
    miner_id: int
    run: ConditionRun | None = None
    last_fired_at: int | None = None
    last_outcome: str | None = None
    last_command_id: str | None = None
    quiet_until: int = 0

    @classmethod
    def of(cls, rule: ActiveRule, row: Row) -> "MinerRuleState":
        since, ts, heard_at = row["holds_since"], row["ts"], row["received_at"]
        return cls(
            rule,
            row["miner_id"],
            None if since is None or ts is None else ConditionRun(since, max(since, ts), heard_at),
            row["last_fired_at"],
            row["last_outcome"],
            row["last_command_id"],
            row["quiet_until"] or 0,
        )

    @property
    def is_empty(self) -> bool:
        return self.run is None and self.last_fired_at is None and not self.quiet_until

    def columns(self) -> dict[str, Any]:
        return {
            "rule_id": self.rule.id,
            "miner_id": self.miner_id,
            "holds_since": None if self.run is None else self.run.since,
            "last_fired_at": self.last_fired_at,
            "last_outcome": self.last_outcome,
            "last_command_id": self.last_command_id,
            "quiet_until": self.quiet_until or None,
        }


@dataclass(slots=True)
class MinerThresholds:
    """The threshold rules of a miner; miners with the same rules share one object."""

    thresholds: Thresholds[ActiveRule]
    rule_count: int


@dataclass(slots=True)
class SiteRules:
    site_id: int
    revision: int | None
    rules: list[ActiveRule]
    # miner id → rule id → state
    states: dict[int, dict[int, MinerRuleState]] = field(default_factory=dict)
    # Before this time no rule becomes due without a new sample.
    due_at: int = 0
    offline_rules: list[ActiveRule] = field(default_factory=list)
    _thresholds_by_rules: dict[frozenset[int], MinerThresholds] = field(default_factory=dict)
    _thresholds_by_miner: dict[int, MinerThresholds] = field(default_factory=dict)

    @classmethod
    def read(cls, site_id: int, revision: int | None, rules: Iterable[Row], states: Iterable[Row]) -> "SiteRules":
        site = cls(site_id, revision, [ActiveRule.of(row) for row in rules])
        site.offline_rules = [rule for rule in site.rules if rule.threshold is None]
        by_id = {rule.id: rule for rule in site.rules}
        for row in states:
            site.put(MinerRuleState.of(by_id[row["rule_id"]], row))
        return site

    def put(self, state: MinerRuleState) -> MinerRuleState:
        self.states.setdefault(state.miner_id, {})[state.rule.id] = state
        return state

    def get_or_add(self, rule: ActiveRule, miner_id: int) -> MinerRuleState:
        found = self.states.get(miner_id, {}).get(rule.id)
        return found or self.put(MinerRuleState(rule, miner_id))

    def drop(self, state: MinerRuleState) -> None:
        of_miner = self.states[state.miner_id]
        del of_miner[state.rule.id]
        if not of_miner:
            del self.states[state.miner_id]

    def thresholds_for(self, miner_id: int) -> MinerThresholds:
        thresholds = self._thresholds_by_miner.get(miner_id)
        if thresholds is None:
            thresholds = self._thresholds_by_miner[miner_id] = self._shared_thresholds(miner_id)
        return thresholds

    def _shared_thresholds(self, miner_id: int) -> MinerThresholds:
        watching = [rule for rule in self.rules if rule.threshold is not None and rule.is_for(miner_id)]
        key = frozenset(rule.id for rule in watching)
        if key not in self._thresholds_by_rules:
            tagged = [(rule.threshold, rule) for rule in watching if rule.threshold is not None]
            self._thresholds_by_rules[key] = MinerThresholds(Thresholds(tagged), len(watching))
        return self._thresholds_by_rules[key]
