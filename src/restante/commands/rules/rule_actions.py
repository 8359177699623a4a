"""Carry out the action of a rule that fires: create its command, or record why it was refused.

A refused command (the last command of the rule is still active, or the rate limit is reached) is no error: the outcome
is recorded in the rule's state and in the audit trail. If the rate limit refused it, the rule tries again when the rate
window frees. In every other case its cooldown begins, which after a refusal is at least one minute.
"""

import hashlib
from dataclasses import dataclass

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.errors import DuplicateActive, RateLimited, error_code
from restante.commands.lifecycle import creation, makers
from restante.commands.lifecycle.creation import CommandRequest, CreationOptions
from restante.commands.rules.rule_state import ActiveRule, MinerRuleState
from restante.core.errors import RestanteError
from restante.database.connection import Connection

CREATED = "created"
REFUSED_EVENT = "rule.refused"
# Without a minimum, a rule without a cooldown would be refused, and audited, with every sample.
REFUSED_COOLDOWN_MIN_MS = 60_000


@dataclass(frozen=True, slots=True)
class RuleActions:
    """Creates the commands of rules that fire."""

    trail: AuditTrail
    options: CreationOptions

    def fire(self, conn: Connection, state: MinerRuleState) -> bool:
        """Create the rule's command and put the outcome into the state; whether a command was created."""
        rule = state.rule
        try:
            created = creation.create(
                conn, self.trail, command_request(state), actor_of(rule), self.options, makers.of_rule(conn, rule.id)
            )
        except RestanteError as error:
            self._record_refusal(conn, state, error)
            return False
        state.last_fired_at = conn.now_ms
        state.quiet_until = conn.now_ms + rule.cooldown_ms
        state.last_outcome, state.last_command_id = CREATED, created.command_id
        return True

    def _record_refusal(self, conn: Connection, state: MinerRuleState, error: RestanteError) -> None:
        rule = state.rule
        state.last_outcome = error_code(error)
        if isinstance(error, RateLimited):
            state.quiet_until = conn.now_ms + error.retry_after_seconds * 1000
        else:
            state.quiet_until = conn.now_ms + max(rule.cooldown_ms, REFUSED_COOLDOWN_MIN_MS)
        if isinstance(error, DuplicateActive):
            state.last_command_id = error.fields["command_id"]
        detail = {"rule_id": rule.id, "miner_id": state.miner_id, "error": error_code(error), "why": error.message}
        self.trail.record(conn, AuditEntry(rule.site_id, actor_of(rule), REFUSED_EVENT, None, None, None, detail))


def actor_of(rule: ActiveRule) -> str:
    return f"rule:{rule.id}"


def command_request(state: MinerRuleState) -> CommandRequest:
    rule = state.rule
    return CommandRequest(
        site_id=rule.site_id,
        command_type=rule.action_type,
        miner_id=state.miner_id,
        params=rule.action_parameters,
        sealed_params=rule.sealed_params,
        priority=rule.priority,
        dedupe_key=dedupe_key(rule.id, state.miner_id, rule.action_type, rule.trigger_type),
        rule_id=rule.id,
    )


def dedupe_key(rule_id: int, miner_id: int, action_type: str, trigger_type: str) -> str:
    """The key that the contract defines: it allows one active command of a rule for a miner at a time."""
    return hashlib.sha256(f"{rule_id}:{miner_id}:{action_type}:{trigger_type}".encode()).hexdigest()[:32]
