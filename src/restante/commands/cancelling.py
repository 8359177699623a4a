"""Ending a command before its collector does: cancelled by an operator, denied, or replaced by a newer one.

A command that a collector holds can be cancelled too. The collector may be doing it at that very moment: cancelling
ends what the server expects, and whatever the collector acknowledges later is refused as any ACK of an ended command.
"""

from typing import NamedTuple

from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.queue import SITE_LOCK, CommandsChanged
from restante.commands.wire import CommandFinished, CommandNotFound
from restante.core.command_states import TERMINAL, Event, next_state
from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

CANCELLED = "CANCELLED"
DENIED = "DENIED"
SUPERSEDED = "SUPERSEDED"
REASON_CHARACTERS_MAX = 500


class Ending(NamedTuple):
    """How a command ended, for who looks at it later."""

    result_code: str
    reason: str | None = None
    superseded_by: str | None = None


def cancel(conn: Connection, trail: AuditTrail, command_id: str, actor: str, reason: str | None = None) -> None:
    end(conn, trail, find(conn, command_id), Event.cancel, actor, Ending(CANCELLED, reason))


def end(conn: Connection, trail: AuditTrail, command: Row, event: Event, actor: str, ending: Ending) -> None:
    """Bring the command to the end that the event leads to, and say why."""
    refuse_ended(command)
    state = next_state(command["status"], event).value
    if ending.reason is not None and not 1 <= len(ending.reason) <= REASON_CHARACTERS_MAX:
        raise BadInput("reason", f"1 to {REASON_CHARACTERS_MAX} characters")
    conn.run(SQL.end, id=command["id"], status=state, now_ms=conn.now_ms, **ending._asdict())
    told = {name: value for name, value in ending._asdict().items() if value is not None}
    command_id, before = command["command_id"], command["status"]
    trail.record(conn, AuditEntry(command["site_id"], actor, f"command.{event}", command_id, before, state, told))
    # Nothing became available, but what is known about the site may have been about this command.
    conn.announce(CommandsChanged(command["site_id"]))


def find(conn: Connection, command_id: str) -> Row:
    """The command, as it is until the transaction ends."""
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        raise CommandNotFound()
    conn.lock(SITE_LOCK, row["site_id"])
    # Whose site it is was read before it was locked: what has become of it since is read now.
    return conn.one(SQL.command, command_id=command_id) or row


def refuse_ended(command: Row) -> None:
    if command["status"] in TERMINAL:
        raise CommandFinished(command["status"])
