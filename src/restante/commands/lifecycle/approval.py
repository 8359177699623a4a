"""Approval: which commands need the approval of a second person, and the approval or denial itself.

Invariants: only a signed-in person approves, and never a maker of the command (makers.py), whatever the role. A command
that waits for approval is not active and does not reserve its dedupe key against active commands, so its approval may
be refused as a duplicate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.errors import CommandGone, DuplicateActive
from restante.commands.lifecycle import makers
from restante.commands.lifecycle.cancellation import DENIED, Ending, end, find, refuse_ended
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.core.commands.command_states import Event, next_state
from restante.core.errors import NotAllowed
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


WINDOW_DEFAULT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """A command needs approval because of its type, or from a number of miners on; None: the number never matters. The
    miners of all commands of the same makers and type count together, within the window."""

    command_types: frozenset[str] = frozenset()
    miners_from: int | None = None
    window_seconds: int = WINDOW_DEFAULT_SECONDS

    @property
    def is_ever_needed(self) -> bool:
        return bool(self.command_types) or self.miners_from is not None

    def is_needed(self, command_type: str, miner_count: int) -> bool:
        is_many = self.miners_from is not None and miner_count >= self.miners_from
        return is_many or command_type in self.command_types


def is_needed(
    conn: Connection,
    rules: ApprovalRules,
    command_makers: Sequence[str],
    command_type: str,
    miner_count: int,
    miner_id: int | None = None,
) -> bool:
    """Whether a new command of these makers needs approval, for so many miners or for this one."""
    if rules.miners_from is None or rules.is_needed(command_type, miner_count):
        return rules.is_needed(command_type, miner_count)
    before = makers.count_miners(conn, command_makers, command_type, rules.window_seconds, miner_id)
    return rules.is_needed(command_type, before + miner_count)


def approve(conn: Connection, trail: AuditTrail, command_id: str, actor: str, identities: Sequence[str] = ()) -> None:
    """Make the command pending, so that it can be dispatched. `identities`: those behind the actor, a person."""
    command = find(conn, command_id)
    refuse_ended(command)
    state = next_state(command["status"], Event.approve)
    if command["expires_at"] <= conn.now_ms:
        raise CommandGone()
    if {command["created_by"], *makers.of_command(conn, command_id)} & {actor, *identities}:
        raise NotAllowed("you made this command, or you made or changed its rule: another person must approve it")
    if not conn.run(SQL.approve, id=command["id"], status=state.value, actor=actor, now_ms=conn.now_ms):
        active = conn.one(SQL.active_with_key, dedupe_key=command["dedupe_key"])
        assert active is not None  # noqa: S101 — nothing else prevents the update
        raise DuplicateActive(active["command_id"])
    trail.record(
        conn,
        AuditEntry(
            command["site_id"], actor, f"command.{Event.approve}", command_id, command["status"], state.value, {}
        ),
    )
    conn.add_commit_event(CommandsChanged(command["site_id"]))


def deny(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None = None) -> None:
    """End the command without dispatching it."""
    command = find(conn, command_id)
    end(conn, trail, command, Event.deny, actor, Ending(DENIED, reason))
