"""What comes of a rule whose time has come: a command, or the reason why there is none.

A rule that fires while its last command is still on its way, or over the rate limit, is no error: what came of it is
recorded, in the rule's standing and in the audit trail. Over the limit it tries again when the window frees; in every
other case its cooldown begins, which after a refusal is never shorter than a minute.
"""

import hashlib
from dataclasses import dataclass

from restante.commands import creation
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.creation import CommandWish, CreationOptions
from restante.commands.rule_standing import ActiveRule, Standing
from restante.commands.wire import DuplicateActive, RateLimited, error_code
from restante.core.errors import RestanteError
from restante.database.connection import Connection

CREATED = "created"
REFUSED_EVENT = "rule.refused"
# A rule without a cooldown would be refused, and recorded, with every sample.
REFUSED_QUIET_MS = 60_000


@dataclass(frozen=True, slots=True)
class Firing:
    """How rules make commands."""

    trail: AuditTrail
    options: CreationOptions

    def fire(self, conn: Connection, standing: Standing) -> bool:
        """Make the command the rule is for; whether there is one. The standing says what came of it."""
        rule = standing.rule
        try:
            created = creation.create(conn, self.trail, wish_of(standing), actor_of(rule), self.options)
        except RestanteError as error:
            self._record(conn, standing, error)
            return False
        standing.last_fired_at = conn.now_ms
        standing.quiet_until = conn.now_ms + rule.cooldown_ms
        standing.last_outcome, standing.last_command_id = CREATED, created.command_id
        return True

    def _record(self, conn: Connection, standing: Standing, error: RestanteError) -> None:
        rule = standing.rule
        standing.last_outcome = error_code(error)
        if isinstance(error, RateLimited):
            standing.quiet_until = conn.now_ms + error.retry_after_seconds * 1000
        else:
            standing.quiet_until = conn.now_ms + max(rule.cooldown_ms, REFUSED_QUIET_MS)
        if isinstance(error, DuplicateActive):
            standing.last_command_id = error.fields["command_id"]
        detail = {"rule_id": rule.id, "miner_id": standing.miner_id, "error": error_code(error), "why": error.message}
        self.trail.record(conn, AuditEntry(rule.site_id, actor_of(rule), REFUSED_EVENT, None, None, None, detail))


def actor_of(rule: ActiveRule) -> str:
    return f"rule:{rule.id}"


def wish_of(standing: Standing) -> CommandWish:
    rule = standing.rule
    return CommandWish(
        site_id=rule.site_id,
        command_type=rule.action_type,
        miner_id=standing.miner_id,
        params=rule.action_parameters,
        priority=rule.priority,
        dedupe_key=dedupe_key(rule.id, standing.miner_id, rule.action_type, rule.trigger_type),
        rule_id=rule.id,
    )


def dedupe_key(rule_id: int, miner_id: int, action_type: str, trigger_type: str) -> str:
    """The contract's key: one active command of a rule for a miner at a time."""
    return hashlib.sha256(f"{rule_id}:{miner_id}:{action_type}:{trigger_type}".encode()).hexdigest()[:32]
