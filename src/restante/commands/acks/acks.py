"""Accepting ACKs: a collector reports on a command that it leased.

    the checks, in order:  404 no such command · 403 another site's · 400 not an ACK · replayed · 409/410 ended
                           · 409 not the lease owner · 401 nonce · 401 signature
    then:                  the change of the command, with its audit row

A collector that has run a command before does not run it again: it answers a redelivery with a duplicate ACK. That ACK
has no result of its own. The failure that an earlier attempt reported becomes final; if there is none, the result was
lost, and the command fails with OUTCOME_UNKNOWN.

Invariants: a refused ACK changes nothing but the audit trail, where it is a row unless it was sent before
(`repeated_reports`). That row must be committed, so errors are returned, not raised: the caller sends them after the
commit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.commands.acks.ack_schema import ParsedAck
from restante.commands.acks.repeated_reports import Report, count_reports
from restante.commands.audit.audit_trail import AuditEntry, AuditTrail, ChainEnds
from restante.commands.dispatch.busy_miners import release_miners
from restante.commands.dispatch.next_due import lower_next_due
from restante.commands.dispatch.settlement import CommandFailed, apply_settlement
from restante.commands.dispatch.signing import is_ack_signature_valid
from restante.commands.errors import (
    AccessDenied,
    CommandFinished,
    CommandGone,
    CommandNotFound,
    NonceMismatch,
    NotLeaseOwner,
    SignatureInvalid,
    error_code,
)
from restante.commands.lifecycle.ordering import SITE_LOCK, CommandsChanged
from restante.commands.sites.collectors import SecretBox, sealed_secrets
from restante.core.commands.ack import (
    Ack,
    AckStatus,
    AckVerdict,
    CommandSnapshot,
    Outcome,
    ack_hash,
    check_ack,
    outcome_of_ack,
)
from restante.core.commands.command_states import TERMINAL, Event, State
from restante.core.errors import BadInput, RestanteError
from restante.core.iso_time import iso_whole_seconds
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.database.writer.batching import BatchOperation
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

REPLAYED = "ACK_REPLAYED"
REJECTED = "REJECTED"
FAILED = "FAILED"
OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
OUTCOME_UNKNOWN_MESSAGE = "executed once, its result was lost"
COMMAND_ID_CHARACTERS_MAX = 128

_EVENTS = {event: f"command.{event.value}" for event in Event}

_encode = msgspec.json.Encoder().encode


class _Failure(msgspec.Struct, frozen=True):
    """The result of a failed attempt, as its audit row has it."""

    result_code: str = ""
    message: str = ""


_decode_failure = msgspec.json.Decoder(_Failure).decode


@dataclass(frozen=True, slots=True)
class AckOptions:
    """`is_nonce_required`, `is_signature_required`: refuse ACKs without a nonce, and without a signature."""

    box: SecretBox
    is_nonce_required: bool
    is_signature_required: bool


class AckResponse(msgspec.Struct, omit_defaults=True):
    status: str
    command_id: str
    command_status: str
    replayed: bool
    code: str | None = None
    will_retry: bool | None = None
    next_attempt_at: str | None = None


class AckResult(msgspec.Struct, frozen=True):
    """An accepted ACK, or a replayed one, which changed nothing. `is_repeat`: it says `running` of a command that runs
    already."""

    response: AckResponse
    status: AckStatus
    is_repeat: bool = False


class AckRequest(msgspec.Struct, frozen=True):
    """An ACK, or the error of what was sent instead of one; its sender, and its command."""

    caller: CollectorCaller
    command_id: str
    ack: ParsedAck | BadInput


class CommandRow(CommandSnapshot, frozen=True):
    """A row of the query `commands`: the fields are its columns, in the same order, those of the snapshot first.

    `has_held`: other commands of its miner wait for the end of this one's lease.
    """

    id: int
    site_id: int
    expires_at: int
    next_attempt_at: int | None
    miner_id: int | None
    has_held: bool


class AckColumns(NamedTuple):
    """The columns that every accepted ACK sets: the first parameters of `keep_running`, `requeue` and `finish`."""

    status: str
    ack_hash: str
    attempt: int
    now_ms: int
    executed_at: int | None
    result_code: str | None
    result_message: str | None
    before_snapshot: str | None
    after_snapshot: str | None


class _Changes:
    """The changes of a batch of ACKs, which are written together."""

    __slots__ = ("due_times", "entries", "finished", "freed_miners", "reports", "requeued", "running")

    def __init__(self) -> None:
        self.running: list[tuple[Any, ...]] = []
        self.requeued: list[tuple[Any, ...]] = []
        # Site, and when a requeued command becomes ready.
        self.due_times: list[tuple[int, int]] = []
        self.finished: list[tuple[Any, ...]] = []
        # Miners whose lease has ended and that have held commands.
        self.freed_miners: list[int | None] = []
        self.entries: list[AuditEntry] = []
        self.reports: list[Report] = []


def ack_operation(trail: AuditTrail, options: AckOptions) -> BatchOperation[AckRequest, AckResult | RestanteError]:
    """The batched operation that ACKs are submitted to. ACKs of one site run together."""
    return BatchOperation(
        lambda conn, requests: accept_acks(conn, trail, options, requests),
        lock_key=lambda request: (SITE_LOCK, request.caller.site_id),
    )


def accept_ack(
    conn: Connection,
    trail: AuditTrail,
    options: AckOptions,
    caller: CollectorCaller,
    command_id: str,
    ack: ParsedAck | BadInput,
) -> AckResult | RestanteError:
    """Apply the ACK, or return the error that refuses it."""
    return accept_acks(conn, trail, options, [AckRequest(caller, command_id, ack)])[0]


def accept_acks(
    conn: Connection, trail: AuditTrail, options: AckOptions, requests: Sequence[AckRequest]
) -> list[AckResult | RestanteError]:
    """Accept several ACKs in their order."""
    sites = {request.caller.site_id for request in requests}
    conn.lock(SITE_LOCK, *sites)
    command_ids = {request.command_id for request in requests}
    rows, ends = _prefetch_commands(conn, command_ids), trail.prefetch_ends(conn, sites)
    found = rows()
    is_due = any(_is_due(command, conn.now_ms) for command in found.values())
    if len(requests) > 1 and (is_due or len(command_ids) < len(requests)):
        # One of them, or a settlement, changes a command that another refers to.
        return [accept_acks(conn, trail, options, [request])[0] for request in requests]
    changes = _Changes()
    outcomes = [
        _accept(conn, options, request, _settled(conn, trail, request.caller, request.command_id, found), changes)
        for request in requests
    ]
    _write(conn, trail, changes, None if is_due else ends)
    return outcomes


def find_command(
    conn: Connection, trail: AuditTrail, caller: CollectorCaller, command_id: str
) -> CommandRow | RestanteError:
    """Return the command after settlement; an error if there is none, or it belongs to another site."""
    conn.lock(SITE_LOCK, caller.site_id)
    return _settled(conn, trail, caller, command_id, _prefetch_commands(conn, [command_id])())


def error_of_verdict(verdict: AckVerdict, command: CommandSnapshot) -> RestanteError | None:
    """The error of a verdict that refuses the ACK."""
    match verdict:
        case AckVerdict.finished:
            return CommandFinished(command.state)
        case AckVerdict.expired:
            return CommandGone()
        case AckVerdict.not_owner:
            return NotLeaseOwner()
        case AckVerdict.wrong_nonce:
            return NonceMismatch()
        case _:
            return None


def _prefetch_commands(conn: Connection, command_ids: Iterable[str]) -> Callable[[], dict[str, CommandRow]]:
    """Start to read the commands. The returned function yields them by id."""
    rows = conn.prefetch(SQL.commands, command_ids=_encode(list(command_ids)).decode())
    return lambda: {command_id: CommandRow(command_id, State(status), *rest) for command_id, status, *rest in rows()}


def _settled(
    conn: Connection, trail: AuditTrail, caller: CollectorCaller, command_id: str, found: dict[str, CommandRow]
) -> CommandRow | RestanteError:
    command = found.get(command_id)
    if command is None:
        return CommandNotFound()
    if command.site_id != caller.site_id:
        return AccessDenied()
    if _is_due(command, conn.now_ms):
        apply_settlement(conn, trail, caller.site_id)
        return _prefetch_commands(conn, [command_id])()[command_id]
    return command


def _is_due(command: CommandRow, now_ms: int) -> bool:
    return command.state not in TERMINAL and (
        command.expires_at <= now_ms or (command.lease_until_ms is not None and command.lease_until_ms <= now_ms)
    )


def _accept(
    conn: Connection, options: AckOptions, request: AckRequest, command: CommandRow | RestanteError, changes: _Changes
) -> AckResult | RestanteError:
    caller, command_id, parsed = request.caller, request.command_id, request.ack
    if isinstance(command, RestanteError):
        return _record_refusal(changes, caller, command_id, None, command)
    if isinstance(parsed, BadInput):
        return parsed
    ack, now_ms = parsed.ack, conn.now_ms
    verdict = check_ack(ack, command, caller.device_id, now_ms, is_nonce_required=options.is_nonce_required)
    if verdict is AckVerdict.replayed:
        return AckResult(_response(command_id, command.state, command.next_attempt_at, REPLAYED), ack.status)
    error = error_of_verdict(verdict, command)
    if error is None and parsed.signed_body is not None:
        secrets = options.box.valid_secrets(sealed_secrets(conn, caller.device_id), now_ms)
        error = None if is_ack_signature_valid(parsed.signed_body, secrets) else SignatureInvalid()
    elif error is None and options.is_signature_required:
        error = SignatureInvalid("the ACK has no signature, which this server requires")
    if error is not None:
        return _record_refusal(changes, caller, command_id, command, error)
    outcome = outcome_of_ack(ack, command, now_ms)
    is_signed = parsed.signed_body is not None
    hash_of_ack = ack_hash(command_id, ack.status, ack.result_code, ack.message)
    if ack.is_duplicate:
        parsed = _result_of_duplicate(conn, command_id, ack)
    _apply(conn, changes, command, parsed, hash_of_ack, outcome)
    _record(changes, caller, command, parsed, outcome, is_signed=is_signed)
    response = _response(command_id, outcome.state, outcome.next_attempt_at_ms, None)
    if ack.status is AckStatus.failed:
        response.will_retry = outcome.event is Event.retry
    return AckResult(response, ack.status, is_repeat=_is_repeat(command, outcome))


def _is_repeat(command: CommandSnapshot, outcome: Outcome) -> bool:
    return command.state is State.running and outcome.state is State.running


def _result_of_duplicate(conn: Connection, command_id: str, ack: Ack) -> ParsedAck:
    """The result that a duplicate ACK makes final: that of the last failed attempt, or that it was lost.

    Snapshots and times that an earlier attempt reported are in the command's row and stay there.
    """
    row = conn.one(SQL.last_failure, command_id=command_id, event=_EVENTS[Event.retry])
    if row is None:
        return ParsedAck(msgspec.structs.replace(ack, result_code=OUTCOME_UNKNOWN, message=OUTCOME_UNKNOWN_MESSAGE))
    failure = _decode_failure(row["detail"])
    return ParsedAck(msgspec.structs.replace(ack, result_code=failure.result_code, message=failure.message))


def _apply(
    conn: Connection, changes: _Changes, command: CommandRow, parsed: ParsedAck, hash_of_ack: str, outcome: Outcome
) -> None:
    ack, state = parsed.ack, outcome.state
    columns = AckColumns(
        status=state.value,
        ack_hash=hash_of_ack,
        attempt=command.attempt,
        now_ms=conn.now_ms,
        executed_at=parsed.executed_at_ms,
        result_code=ack.result_code or None,
        result_message=ack.message or None,
        before_snapshot=parsed.before_snapshot,
        after_snapshot=parsed.after_snapshot,
    )
    if state is State.running:
        changes.running.append((*columns, command.id))
        return
    if command.has_held:
        changes.freed_miners.append(command.miner_id)
        conn.add_commit_event(CommandsChanged(command.site_id))
    if state is State.pending:
        changes.requeued.append((*columns, outcome.retry_count, outcome.next_attempt_at_ms, command.id))
        if outcome.next_attempt_at_ms is not None:
            changes.due_times.append((command.site_id, outcome.next_attempt_at_ms))
        conn.add_commit_event(CommandsChanged(command.site_id))
    else:
        changes.finished.append((*columns, command.id))
        if state is State.failed:
            code = ack.result_code or (REJECTED if outcome.event is Event.reject else FAILED)
            conn.add_commit_event(CommandFailed(command.site_id, code))


def _record(
    changes: _Changes,
    caller: CollectorCaller,
    command: CommandSnapshot,
    parsed: ParsedAck,
    outcome: Outcome,
    *,
    is_signed: bool,
) -> None:
    # A signature that is not valid refuses the ACK.
    detail: dict[str, Any] = {"attempt": command.attempt, "signature": "valid" if is_signed else "none"}
    if parsed.ack.is_duplicate:
        detail["duplicate_ignored"] = True
    if parsed.ack.result_code:
        detail["result_code"] = parsed.ack.result_code
    if parsed.ack.message:
        detail["message"] = parsed.ack.message
    if parsed.executed_at_ms is not None:
        detail["executed_at"] = parsed.executed_at_ms
    if outcome.next_attempt_at_ms is not None:
        detail["next_attempt_at"] = outcome.next_attempt_at_ms
    if parsed.before_snapshot is not None:
        detail["before_snapshot"] = msgspec.Raw(parsed.before_snapshot.encode())
    if parsed.after_snapshot is not None:
        detail["after_snapshot"] = msgspec.Raw(parsed.after_snapshot.encode())
    entry = AuditEntry(
        caller.site_id,
        f"collector:{caller.device_id}",
        _EVENTS[outcome.event],
        command.command_id,
        command.state.value,
        outcome.state.value,
        detail,
    )
    if _is_repeat(command, outcome):
        changes.reports.append(Report(caller.device_id, outcome.event, entry))
    else:
        changes.entries.append(entry)


def _record_refusal(
    changes: _Changes,
    caller: CollectorCaller,
    command_id: str,
    command: CommandSnapshot | None,
    error: RestanteError,
) -> RestanteError:
    """Record the error and return it. The audit row names a command only if it belongs to the collector's site."""
    detail: dict[str, Any] = {"error": error_code(error)}
    state = None if command is None else command.state.value
    if command is None:
        detail["said_command_id"] = command_id
    else:
        detail |= {"lease_owner": command.lease_owner, "attempt": command.attempt}
    own_command_id = None if command is None else command_id
    actor = f"collector:{caller.device_id}"
    entry = AuditEntry(caller.site_id, actor, "ack.refused", own_command_id, state, state, detail)
    changes.reports.append(Report(caller.device_id, error_code(error), entry))
    return error


def _write(conn: Connection, trail: AuditTrail, changes: _Changes, ends: ChainEnds | None) -> None:
    conn.run_rows(SQL.keep_running, changes.running)
    conn.run_rows(SQL.requeue, changes.requeued)
    lower_next_due(conn, changes.due_times)
    conn.run_rows(SQL.finish, changes.finished)
    release_miners(conn, changes.freed_miners)
    entries = changes.entries + count_reports(conn, changes.reports)
    if entries:
        trail.record_all(conn, entries, ends)


def _response(command_id: str, state: State, next_attempt_at: int | None, code: str | None) -> AckResponse:
    at = None if next_attempt_at is None else iso_whole_seconds(next_attempt_at, is_rounded_up=True)
    return AckResponse("ok", command_id, state.value, code is not None, code, None, at)
