"""Taking ACKs, and lengthening leases: what a collector says of a command it was handed.

    404 no such command · 403 another site's · replayed · 409/410 ended · 409 not the holder · 401 nonce · 401 signature
    ─▶ the change, recorded

Must always hold: a refused ACK changes nothing but the audit trail, where it is a row. That row must be committed,
so a refusal is returned and not raised: whoever opened the transaction writes it to the caller after the commit.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.commands.ack_body import ReadAck
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.collectors import SecretBox, sealed_secrets
from restante.commands.leases import CommandFailed, settle, standing_of
from restante.commands.queue import CommandsChanged
from restante.commands.signing import is_ack_signed
from restante.commands.wire import (
    AccessDenied,
    CommandFinished,
    CommandGone,
    CommandNotFound,
    NonceMismatch,
    NotLeaseOwner,
    SignatureInvalid,
    error_code,
    iso_not_before,
)
from restante.core.ack import AckStatus, Outcome, Standing, Verdict, ack_hash, judge, outcome_of
from restante.core.command_states import TERMINAL, Event, State
from restante.core.errors import RestanteError
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

REPLAYED = "ACK_REPLAYED"
REJECTED = "REJECTED"
FAILED = "FAILED"
COMMAND_ID_CHARACTERS_MAX = 128


@dataclass(frozen=True, slots=True)
class AckOptions:
    """`is_nonce_required`: an ACK without a nonce is refused."""

    box: SecretBox
    is_nonce_required: bool = False


class AckAnswer(msgspec.Struct, omit_defaults=True):
    status: str
    command_id: str
    command_status: str
    replayed: bool
    code: str | None = None
    will_retry: bool | None = None
    next_attempt_at: str | None = None


class Taken(NamedTuple):
    """An ACK that was answered with a success; a replay changed nothing."""

    answer: AckAnswer
    status: AckStatus


def acknowledge(
    conn: Connection, trail: AuditTrail, options: AckOptions, caller: CollectorCaller, command_id: str, read: ReadAck
) -> Taken | RestanteError:
    """What the ACK leads to, or why it is refused."""
    row = find_held(conn, trail, caller, command_id)
    if isinstance(row, RestanteError):
        return _refused(conn, trail, caller, command_id, None, row)
    standing = standing_of(row)
    verdict = judge(read.ack, standing, caller.device_id, conn.now_ms, nonce_required=options.is_nonce_required)
    if verdict is Verdict.replayed:
        return Taken(_answer(row, State(row["status"]), row["next_attempt_at"], REPLAYED), read.ack.status)
    refusal = refusal_of(verdict, standing)
    if refusal is None and read.signed_body is not None:
        secrets = options.box.valid(sealed_secrets(conn, caller.device_id), conn.now_ms)
        refusal = None if is_ack_signed(read.signed_body, secrets) else SignatureInvalid()
    if refusal is not None:
        return _refused(conn, trail, caller, command_id, standing, refusal)
    outcome = outcome_of(read.ack, standing, conn.now_ms)
    _apply(conn, row, standing, read, outcome)
    _record(conn, trail, caller, standing, read, outcome)
    answer = _answer(row, outcome.state, outcome.next_attempt_at_ms, None)
    if read.ack.status is AckStatus.failed:
        answer.will_retry = outcome.event is Event.retry
    return Taken(answer, read.ack.status)


def find_held(conn: Connection, trail: AuditTrail, caller: CollectorCaller, command_id: str) -> Row | RestanteError:
    """The command, brought up to the present; or that it is not there, or not the collector's site's."""
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        return CommandNotFound()
    if row["site_id"] != caller.site_id:
        return AccessDenied()
    if State(row["status"]) not in TERMINAL and _is_due(row, conn.now_ms):
        settle(conn, trail, caller.site_id)
        row = conn.one(SQL.command, command_id=command_id)
        assert row is not None  # noqa: S101 — settling removes nothing
    return row


def refusal_of(verdict: Verdict, standing: Standing) -> RestanteError | None:
    match verdict:
        case Verdict.finished:
            return CommandFinished(standing.state)
        case Verdict.expired:
            return CommandGone()
        case Verdict.not_owner:
            return NotLeaseOwner()
        case Verdict.wrong_nonce:
            return NonceMismatch()
        case _:
            return None


def _is_due(row: Row, now_ms: int) -> bool:
    return bool(row["expires_at"] <= now_ms or (row["lease_until"] is not None and row["lease_until"] <= now_ms))


def _apply(conn: Connection, row: Row, standing: Standing, read: ReadAck, outcome: Outcome) -> None:
    ack = read.ack
    parameters: dict[str, Any] = {
        "id": row["id"],
        "status": outcome.state.value,
        "ack_hash": ack_hash(standing.command_id, ack.status, ack.result_code, ack.message),
        "attempt": standing.attempt,
        "now_ms": conn.now_ms,
        "executed_at": read.executed_at_ms,
        "result_code": ack.result_code or None,
        "result_message": ack.message or None,
        "before_snapshot": read.before_snapshot,
        "after_snapshot": read.after_snapshot,
    }
    if outcome.state is State.running:
        conn.run(SQL.go_on, **parameters)
    elif outcome.state is State.pending:
        more = {"retry_count": outcome.retry_count, "next_attempt_at": outcome.next_attempt_at_ms}
        conn.run(SQL.hand_back, **parameters, **more)
        conn.announce(CommandsChanged(row["site_id"]))
    else:
        conn.run(SQL.finish, **parameters)
        if outcome.state is State.failed:
            code = ack.result_code or (REJECTED if outcome.event is Event.reject else FAILED)
            conn.announce(CommandFailed(row["site_id"], code))


def _record(
    conn: Connection,
    trail: AuditTrail,
    caller: CollectorCaller,
    standing: Standing,
    read: ReadAck,
    outcome: Outcome,
) -> None:
    detail: dict[str, Any] = {
        "attempt": standing.attempt,
        "result_code": read.ack.result_code,
        "message": read.ack.message,
        "executed_at": read.executed_at_ms,
        "next_attempt_at": outcome.next_attempt_at_ms,
        "before_snapshot": None if read.before_snapshot is None else msgspec.Raw(read.before_snapshot.encode()),
        "after_snapshot": None if read.after_snapshot is None else msgspec.Raw(read.after_snapshot.encode()),
    }
    said = {key: value for key, value in detail.items() if value not in (None, "")}
    trail.record(
        conn,
        AuditEntry(
            caller.site_id,
            f"collector:{caller.device_id}",
            f"command.{outcome.event.value}",
            standing.command_id,
            standing.state.value,
            outcome.state.value,
            said,
        ),
    )


def _refused(
    conn: Connection,
    trail: AuditTrail,
    caller: CollectorCaller,
    command_id: str,
    standing: Standing | None,
    refusal: RestanteError,
) -> RestanteError:
    """Record the refusal. A command that is not the site's is not named as one of its own."""
    detail: dict[str, Any] = {"error": error_code(refusal)}
    state = None if standing is None else standing.state.value
    if standing is None:
        detail["said_command_id"] = command_id
    else:
        detail |= {"lease_owner": standing.lease_owner, "attempt": standing.attempt}
    known = command_id if standing is not None else None
    actor = f"collector:{caller.device_id}"
    trail.record(conn, AuditEntry(caller.site_id, actor, "ack.refused", known, state, state, detail))
    return refusal


def _answer(row: Row, state: State, next_attempt_at: int | None, code: str | None) -> AckAnswer:
    at = None if next_attempt_at is None else iso_not_before(next_attempt_at)
    return AckAnswer("ok", row["command_id"], state.value, code is not None, code, None, at)
