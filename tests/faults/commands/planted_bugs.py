"""Bugs in claims and ACKs, which the checker of commands must find. See `crash_point` for how to start them."""

import threading
from typing import Any

from msgspec import structs

from restante.commands.acks import acks
from restante.commands.audit.audit_trail import AuditTrail, ChainEnds
from restante.commands.component import CommandsComponent
from restante.commands.dispatch import claims
from restante.core.commands.ack import Ack, AckVerdict, CommandSnapshot, Outcome, check_ack, outcome_of_ack
from restante.core.commands.command_states import LEASED, State
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from tests.faults.crash_point import CrashPoint, replace, respond_before_commit_of, start

# An id that no command has.
NO_COMMAND = -1


def accept_without_lease_check(_crash: CrashPoint) -> None:
    """Every collector that ever held a command may acknowledge it, even if another holds it now."""

    def check_without_lease(
        ack: Ack, command: CommandSnapshot, device_id: int, now_ms: int, *, is_nonce_required: bool
    ) -> AckVerdict:
        verdict = check_ack(ack, command, device_id, now_ms, is_nonce_required=is_nonce_required)
        return AckVerdict.accepted if verdict in (AckVerdict.not_owner, AckVerdict.wrong_nonce) else verdict

    def outcome_without_lease(ack: Ack, command: CommandSnapshot, now_ms: int) -> Outcome:
        leased = command if command.state in LEASED else structs.replace(command, state=State.dispatched)
        return outcome_of_ack(ack, leased, now_ms)

    replace(acks, "check_ack", check_without_lease)
    replace(acks, "outcome_of_ack", outcome_without_lease)


def accept_any_attempt(_crash: CrashPoint) -> None:
    """The holder may acknowledge under any attempt."""

    def check_without_attempt(
        ack: Ack, command: CommandSnapshot, device_id: int, now_ms: int, *, is_nonce_required: bool
    ) -> AckVerdict:
        unmarked = structs.replace(ack, nonce=command.nonce, attempt=None)
        return check_ack(unmarked, command, device_id, now_ms, is_nonce_required=is_nonce_required)

    replace(acks, "check_ack", check_without_attempt)


def respond_before_commit(crash: CrashPoint) -> None:
    respond_before_commit_of(crash, acks, "_apply")


def lease_not_written(_crash: CrashPoint) -> None:
    """The first lease on each command is not written."""
    write = claims._ClaimBatch.write
    seen: set[int] = set()

    def write_without_new_leases(self: claims._ClaimBatch, trail: AuditTrail) -> None:
        new = {lease.id for lease in self._leases} - seen
        seen.update(new)
        self._leases = [lease._replace(id=NO_COMMAND) if lease.id in new else lease for lease in self._leases]
        write(self, trail)

    replace(claims._ClaimBatch, "write", write_without_new_leases)


def refusals_not_audited(_crash: CrashPoint) -> None:
    def refused(*args: Any) -> RestanteError:
        refusal: RestanteError = args[-1]
        return refusal

    replace(acks, "_record_refusal", refused)


def audit_in_another_transaction(crash: CrashPoint) -> None:
    """The effect of an ACK is audited a little later, in another transaction."""
    build, write = CommandsComponent.__init__, acks._write
    databases: list[Database] = []

    def keep_database(self: CommandsComponent, database: Database, *args: Any) -> None:
        databases.append(database)
        build(self, database, *args)

    def write_without_audit(
        conn: Connection, trail: AuditTrail, changes: acks._Changes, ends: ChainEnds | None
    ) -> None:
        late = [entry for entry in changes.entries if entry.event != "ack.refused"]
        changes.entries = [entry for entry in changes.entries if entry.event == "ack.refused"]
        write(conn, trail, changes, ends)

        def later() -> None:
            crash.pass_by()
            databases[0].submit(trail.record_all, late)

        if late:
            threading.Timer(0.05, later).start()

    replace(CommandsComponent, "__init__", keep_database)
    replace(acks, "_write", write_without_audit)


if __name__ == "__main__":
    start(
        accept_without_lease_check,
        accept_any_attempt,
        respond_before_commit,
        lease_not_written,
        refusals_not_audited,
        audit_in_another_transaction,
    )
