"""Approval: which commands somebody else must agree to, and their agreeing or not.

Must always hold: nobody approves their own command, whatever their role. A command that waits for approval is not
active: it holds no dedupe key against active ones, so approving one can be refused because of another.
"""

from dataclasses import dataclass

from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.cancelling import DENIED, Ending, end, find, refuse_ended
from restante.commands.queue import CommandsChanged
from restante.commands.wire import CommandGone, DuplicateActive
from restante.core.command_states import Event, next_state
from restante.core.errors import NotAllowed
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """A command needs approval by its type, or because it is for so many miners; None: however many."""

    command_types: frozenset[str] = frozenset()
    miners_from: int | None = None

    def is_needed(self, command_type: str, miner_count: int) -> bool:
        is_many = self.miners_from is not None and miner_count >= self.miners_from
        return is_many or command_type in self.command_types


def approve(conn: Connection, trail: AuditTrail, command_id: str, actor: str) -> None:
    """From now on the command waits to be handed out."""
    command = find(conn, command_id)
    refuse_ended(command)
    state = next_state(command["status"], Event.approve)
    if command["expires_at"] <= conn.now_ms:
        raise CommandGone()
    if command["created_by"] == actor:
        raise NotAllowed("whoever made a command cannot approve it")
    if not conn.run(SQL.approve, id=command["id"], status=state.value, actor=actor, now_ms=conn.now_ms):
        holder = conn.one(SQL.active_with_key, dedupe_key=command["dedupe_key"])
        assert holder is not None  # noqa: S101 — nothing else stands in the way of the update
        raise DuplicateActive(holder["command_id"])
    trail.record(
        conn,
        AuditEntry(
            command["site_id"], actor, f"command.{Event.approve}", command_id, command["status"], state.value, {}
        ),
    )
    conn.announce(CommandsChanged(command["site_id"]))


def deny(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None = None) -> None:
    """The command ends without ever having been handed out."""
    command = find(conn, command_id)
    end(conn, trail, command, Event.deny, actor, Ending(DENIED, reason))
