"""Starts the server with a fault in its handling of commands built in, for tests of the checker that is to find it.

python -m tests.faults.commands_sabotage FAULT die|live serve …
"""

import threading
from collections.abc import Callable
from typing import Any

from restante.commands import acks, claims
from restante.commands.claims import ClaimOptions
from restante.commands.parts import CommandsParts
from restante.commands.rate_windows import Window
from restante.core.ack import Ack, Outcome, Standing, Verdict, judge, outcome_of
from restante.core.command_states import LEASED, State
from restante.core.errors import RestanteError
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from tests.faults.sabotage import Crash, answer_early, replace, start

PEEK = Query(
    "peek",
    "SELECT command_id, site_id, zone_id, miner_id, command_type, params, priority, expires_at, dedupe_key, "
    ":nonce AS nonce, :now_ms AS signed_at, :lease_until AS lease_until, attempt + 1 AS attempt, retry_count, "
    "max_retries, NULL AS waited_ms FROM miner_commands WHERE id = :id",
)


def lease_unchecked(_crash: Crash) -> None:
    """Whoever was handed a command once may acknowledge it for ever, whoever holds it now."""

    def credulous(ack: Ack, standing: Standing, device_id: int, now_ms: int, *, nonce_required: bool) -> Verdict:
        verdict = judge(ack, standing, device_id, now_ms, nonce_required=nonce_required)
        return Verdict.counts if verdict in (Verdict.not_owner, Verdict.wrong_nonce) else verdict

    def anyhow(ack: Ack, standing: Standing, now_ms: int) -> Outcome:
        leased = standing if standing.state in LEASED else standing._replace(state=State.dispatched)
        return outcome_of(ack, leased, now_ms)

    replace(acks, "judge", credulous)
    replace(acks, "outcome_of", anyhow)


def attempt_unchecked(_crash: Crash) -> None:
    """That it holds the command is enough; under which attempt it says so is not looked at."""

    def credulous(ack: Ack, standing: Standing, device_id: int, now_ms: int, *, nonce_required: bool) -> Verdict:
        unmarked = ack._replace(nonce=standing.nonce, attempt=None)
        return judge(unmarked, standing, device_id, now_ms, nonce_required=nonce_required)

    replace(acks, "judge", credulous)


def answer_before_commit(crash: Crash) -> None:
    answer_early(crash, acks, "_apply")


def lease_unmarked(_crash: Crash) -> None:
    """The first time a command is handed out, nobody writes down to whom."""
    dispatch = claims._dispatch
    seen: set[int] = set()

    def forgetful(
        conn: Connection,
        options: ClaimOptions,
        caller: CollectorCaller,
        chosen: list[Row],
        windows: dict[str, Window],
    ) -> list[Row]:
        new = [row["id"] for row in chosen if row["id"] not in seen]
        seen.update(new)
        lease = {"lease_until": conn.now_ms + options.lease_seconds * 1000, "now_ms": conn.now_ms, "nonce": "none"}
        peeked = [row for row_id in new for row in conn.all(PEEK, id=row_id, **lease)]
        return peeked + dispatch(conn, options, caller, [row for row in chosen if row["id"] not in new], windows)

    replace(claims, "_dispatch", forgetful)


def refusals_unrecorded(_crash: Crash) -> None:
    def refused(*args: Any) -> RestanteError:
        refusal: RestanteError = args[-1]
        return refusal

    replace(acks, "_refused", refused)


def audit_apart(crash: Crash) -> None:
    """What an ACK did is recorded a little later, in a transaction of its own."""
    build, record = CommandsParts.__init__, acks._record
    databases: list[Database] = []

    def noted(self: CommandsParts, database: Database, *args: Any) -> None:
        databases.append(database)
        build(self, database, *args)

    def apart(_conn: Connection, *args: Any) -> None:
        def later() -> None:
            crash.may_come()
            databases[0].submit(record, *args)

        threading.Timer(0.05, later).start()

    replace(CommandsParts, "__init__", noted)
    replace(acks, "_record", apart)


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
