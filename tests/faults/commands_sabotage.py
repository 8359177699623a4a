"""Starts the server with a fault in its handling of commands built in, for tests of the checker that is to find it.

python -m tests.faults.commands_sabotage FAULT die|live serve …
"""

import threading
from collections.abc import Callable
from typing import Any

from msgspec import structs

from restante.commands import acks, claims
from restante.commands.audit import AuditTrail, Ends
from restante.commands.parts import CommandsParts
from restante.core.ack import Ack, Outcome, Standing, Verdict, judge, outcome_of
from restante.core.command_states import LEASED, State
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from tests.faults.sabotage import Crash, answer_early, replace, start

# The id of no command.
NOWHERE = -1


def lease_unchecked(_crash: Crash) -> None:
    """Whoever was handed a command once may acknowledge it for ever, whoever holds it now."""

    def credulous(ack: Ack, standing: Standing, device_id: int, now_ms: int, *, nonce_required: bool) -> Verdict:
        verdict = judge(ack, standing, device_id, now_ms, nonce_required=nonce_required)
        return Verdict.counts if verdict in (Verdict.not_owner, Verdict.wrong_nonce) else verdict

    def anyhow(ack: Ack, standing: Standing, now_ms: int) -> Outcome:
        leased = standing if standing.state in LEASED else structs.replace(standing, state=State.dispatched)
        return outcome_of(ack, leased, now_ms)

    replace(acks, "judge", credulous)
    replace(acks, "outcome_of", anyhow)


def attempt_unchecked(_crash: Crash) -> None:
    """That it holds the command is enough; under which attempt it says so is not looked at."""

    def credulous(ack: Ack, standing: Standing, device_id: int, now_ms: int, *, nonce_required: bool) -> Verdict:
        unmarked = structs.replace(ack, nonce=standing.nonce, attempt=None)
        return judge(unmarked, standing, device_id, now_ms, nonce_required=nonce_required)

    replace(acks, "judge", credulous)


def answer_before_commit(crash: Crash) -> None:
    answer_early(crash, acks, "_apply")


def lease_unmarked(_crash: Crash) -> None:
    """The first time a command is handed out, nobody writes down to whom."""
    write_down = claims._Claiming.write_down
    seen: set[int] = set()

    def forgetful(self: claims._Claiming, trail: AuditTrail) -> None:
        new = {lease[-1] for lease in self._leases} - seen
        seen.update(new)
        self._leases = [(*lease[:-1], NOWHERE) if lease[-1] in new else lease for lease in self._leases]
        write_down(self, trail)

    replace(claims._Claiming, "write_down", forgetful)


def refusals_unrecorded(_crash: Crash) -> None:
    def refused(*args: Any) -> RestanteError:
        refusal: RestanteError = args[-1]
        return refusal

    replace(acks, "_refused", refused)


def audit_apart(crash: Crash) -> None:
    """What an ACK did is recorded a little later, in a transaction of its own."""
    build, write_down = CommandsParts.__init__, acks._write_down
    databases: list[Database] = []

    def noted(self: CommandsParts, database: Database, *args: Any) -> None:
        databases.append(database)
        build(self, database, *args)

    def apart(conn: Connection, trail: AuditTrail, changes: acks._Changes, ends: Ends | None) -> None:
        late = [entry for entry in changes.entries if entry.event != "ack.refused"]
        changes.entries = [entry for entry in changes.entries if entry.event == "ack.refused"]
        write_down(conn, trail, changes, ends)

        def later() -> None:
            crash.may_come()
            databases[0].submit(trail.record_all, late)

        if late:
            threading.Timer(0.05, later).start()

    replace(CommandsParts, "__init__", noted)
    replace(acks, "_write_down", apart)


FAULTS: dict[str, Callable[[Crash], None]] = {
    fault.__name__: fault
    for fault in (
        lease_unchecked,
        attempt_unchecked,
        answer_before_commit,
        lease_unmarked,
        refusals_unrecorded,
        audit_apart,
    )
}

if __name__ == "__main__":
    start(FAULTS)
