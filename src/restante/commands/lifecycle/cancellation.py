"""Ending a command before its collector does: an operator cancels or denies it, or a newer command supersedes it.

A leased command can be cancelled too, even while the collector executes it. A later ACK is refused like any ACK of an
ended command.
"""

from typing import NamedTuple

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.dispatch.busy_miners import release_miners
from restante.commands.errors import CommandFinished, CommandNotFound
from restante.commands.lifecycle.ordering import SITE_LOCK, CommandsChanged
from restante.core.commands.command_states import TERMINAL, Event, next_state
from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

CANCELLED = "CANCELLED"
DENIED = "DENIED"
SUPERSEDED = "SUPERSEDED"
REASON_CHARACTERS_MAX = 500


class Ending(NamedTuple):
    """How a command ended: the columns that operators see later."""

    result_code: str
    reason: str | None = None
    superseded_by: str | None = None


def cancel(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None = None) -> None:
    end(conn, trail, find(conn, command_id), Event.cancel, actor, Ending(CANCELLED, reason))


def end(conn: Connection, trail: AuditTrail, command: Row, event: Event, actor: str, ending: Ending) -> None:
    """End the command with the given event, and record the reason."""
    refuse_ended(command)
    state = next_state(command["status"], event).value
    if ending.reason is not None and not 1 <= len(ending.reason) <= REASON_CHARACTERS_MAX:
        raise BadInput("reason", f"1 to {REASON_CHARACTERS_MAX} characters")
    conn.run(SQL.end, id=command["id"], status=state, now_ms=conn.now_ms, **ending._asdict())
    release_miners(conn, [command["miner_id"]])
    detail = {name: value for name, value in ending._asdict().items() if value is not None}
    command_id, before = command["command_id"], command["status"]
    trail.record(conn, AuditEntry(command["site_id"], actor, f"command.{event}", command_id, before, state, detail))
    # No command became ready, but cached knowledge about the site may depend on this command.
    conn.add_commit_event(CommandsChanged(command["site_id"]))


def find(conn: Connection, command_id: str) -> Row:
    """Lock the command's site and read the command; raise CommandNotFound."""
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        raise CommandNotFound()
    conn.lock(SITE_LOCK, row["site_id"])
    # The first read only shows which site to lock. The command may have changed before the lock was acquired.
    return conn.one(SQL.command, command_id=command_id) or row


def refuse_ended(command: Row) -> None:
    if command["status"] in TERMINAL:
        raise CommandFinished(command["status"])
