"""Taking ACKs, and lengthening leases: what a collector says of a command it was handed.

    404 no such command · 403 another site's · replayed · 409/410 ended · 409 not the holder · 401 nonce · 401 signature
    ─▶ the change, recorded

Must always hold: a refused ACK changes nothing but the audit trail, where it is a row. That row must be committed,
so a refusal is returned and not raised: whoever opened the transaction writes it to the caller after the commit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.commands.ack_body import ReadAck
from restante.commands.audit import AuditEntry, AuditTrail, Ends
from restante.commands.collectors import SecretBox, sealed_secrets
from restante.commands.leases import CommandFailed, settle
from restante.commands.queue import SITE_LOCK, CommandsChanged
from restante.commands.signing import is_ack_signed
from restante.commands.site_quiet import disturb
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
from restante.database.connection import Connection
from restante.database.hot import HotOperation
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

REPLAYED = "ACK_REPLAYED"
REJECTED = "REJECTED"
FAILED = "FAILED"
COMMAND_ID_CHARACTERS_MAX = 128

_EVENTS = {event: f"command.{event.value}" for event in Event}

_encode = msgspec.json.Encoder().encode


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


class Taken(msgspec.Struct, frozen=True):
    """An ACK that was answered with a success; a replay changed nothing."""

    answer: AckAnswer
    status: AckStatus


class Said(msgspec.Struct, frozen=True):
    """An ACK, and who sent it for which command."""

    caller: CollectorCaller
    command_id: str
    read: ReadAck


class Held(msgspec.Struct, frozen=True):
    """A command that a collector may say something about."""

    id: int
    site_id: int
    expires_at: int
    next_attempt_at: int | None
    standing: Standing


class _Changes:
    """What ACKs lead to, to be written for all of them at once."""

    __slots__ = ("entries", "finished", "going_on", "handed_back", "moments")

    def __init__(self) -> None:
        self.going_on: list[tuple[Any, ...]] = []
        self.handed_back: list[tuple[Any, ...]] = []
        # Site, and when the command is to be handed out again.
        self.moments: list[tuple[int, int]] = []
        self.finished: list[tuple[Any, ...]] = []
        self.entries: list[AuditEntry] = []


def taking_acks(trail: AuditTrail, options: AckOptions) -> "HotOperation[Said, Taken | RestanteError]":
    """What ACKs call: those of one site are taken together."""
    return HotOperation(
        lambda conn, said: acknowledge_all(conn, trail, options, said),
        about=lambda said: (SITE_LOCK, said.caller.site_id),
    )


def acknowledge(
    conn: Connection, trail: AuditTrail, options: AckOptions, caller: CollectorCaller, command_id: str, read: ReadAck
) -> Taken | RestanteError:
    """What the ACK leads to, or why it is refused."""
    return acknowledge_all(conn, trail, options, [Said(caller, command_id, read)])[0]


def acknowledge_all(
    conn: Connection, trail: AuditTrail, options: AckOptions, said: Sequence[Said]
) -> list[Taken | RestanteError]:
    """The same for each of several ACKs, in their order."""
    sites = {each.caller.site_id for each in said}
    conn.lock(SITE_LOCK, *sites)
    command_ids = {each.command_id for each in said}
    finding, ends = _find(conn, command_ids), trail.look(conn, sites)
    found = finding()
    is_due = any(_is_due(held, conn.now_ms) for held in found.values())
    if len(said) > 1 and (is_due or len(command_ids) < len(said)):
        # What one of them does, or time has done, changes what another finds.
        return [acknowledge_all(conn, trail, options, [each])[0] for each in said]
    changes = _Changes()
    outcomes = [
        _take(conn, options, each, _held(conn, trail, each.caller, each.command_id, found), changes) for each in said
    ]
    _write_down(conn, trail, changes, None if is_due else ends)
    return outcomes


def find_held(conn: Connection, trail: AuditTrail, caller: CollectorCaller, command_id: str) -> Held | RestanteError:
    """The command, brought up to the present; or that it is not there, or not the collector's site's."""
    conn.lock(SITE_LOCK, caller.site_id)
    return _held(conn, trail, caller, command_id, _find(conn, [command_id])())


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


def _find(conn: Connection, command_ids: Iterable[str]) -> Callable[[], dict[str, Held]]:
    """The commands by their ids; read now, told when called for."""
    rows = conn.values_later(SQL.commands, command_ids=_encode(list(command_ids)).decode())
    return lambda: {held.standing.command_id: held for held in map(_held_in, rows())}


def _held_in(row: tuple[Any, ...]) -> Held:
    row_id, site_id, expires_at, next_attempt_at, command_id, status, *rest = row
    return Held(row_id, site_id, expires_at, next_attempt_at, Standing(command_id, State(status), *rest))


def _held(
    conn: Connection, trail: AuditTrail, caller: CollectorCaller, command_id: str, found: dict[str, Held]
) -> Held | RestanteError:
    held = found.get(command_id)
    if held is None:
        return CommandNotFound()
    if held.site_id != caller.site_id:
        return AccessDenied()
    if _is_due(held, conn.now_ms):
        settle(conn, trail, caller.site_id)
        return _find(conn, [command_id])()[command_id]
    return held


def _is_due(held: Held, now_ms: int) -> bool:
    standing = held.standing
    return standing.state not in TERMINAL and (
        held.expires_at <= now_ms or (standing.lease_until_ms is not None and standing.lease_until_ms <= now_ms)
    )


def _take(
    conn: Connection, options: AckOptions, said: Said, held: Held | RestanteError, changes: _Changes
) -> Taken | RestanteError:
    caller, command_id, read = said.caller, said.command_id, said.read
    if isinstance(held, RestanteError):
        return _refused(changes, caller, command_id, None, held)
    ack, standing, now_ms = read.ack, held.standing, conn.now_ms
    verdict = judge(ack, standing, caller.device_id, now_ms, nonce_required=options.is_nonce_required)
    if verdict is Verdict.replayed:
        return Taken(_answer(command_id, standing.state, held.next_attempt_at, REPLAYED), ack.status)
    refusal = refusal_of(verdict, standing)
    if refusal is None and read.signed_body is not None:
        secrets = options.box.valid(sealed_secrets(conn, caller.device_id), now_ms)
        refusal = None if is_ack_signed(read.signed_body, secrets) else SignatureInvalid()
    if refusal is not None:
        return _refused(changes, caller, command_id, standing, refusal)
    outcome = outcome_of(ack, standing, now_ms)
    _apply(conn, changes, held, read, outcome)
    _record(changes, caller, standing, read, outcome)
    answer = _answer(command_id, outcome.state, outcome.next_attempt_at_ms, None)
    if ack.status is AckStatus.failed:
        answer.will_retry = outcome.event is Event.retry
    return Taken(answer, ack.status)


def _apply(conn: Connection, changes: _Changes, held: Held, read: ReadAck, outcome: Outcome) -> None:
    ack, standing, state = read.ack, held.standing, outcome.state
    row: tuple[Any, ...] = (
        state.value,
        ack_hash(standing.command_id, ack.status, ack.result_code, ack.message),
        standing.attempt,
        conn.now_ms,
        read.executed_at_ms,
        ack.result_code or None,
        ack.message or None,
        read.before_snapshot,
        read.after_snapshot,
    )
    if state is State.running:
        changes.going_on.append((*row, held.id))
    elif state is State.pending:
        again = (outcome.retry_count, outcome.next_attempt_at_ms)
        changes.handed_back.append((*row, *again, held.id))
        if outcome.next_attempt_at_ms is not None:
            changes.moments.append((held.site_id, outcome.next_attempt_at_ms))
        conn.announce(CommandsChanged(held.site_id))
    else:
        changes.finished.append((*row, held.id))
        if state is State.failed:
            code = ack.result_code or (REJECTED if outcome.event is Event.reject else FAILED)
            conn.announce(CommandFailed(held.site_id, code))


def _record(changes: _Changes, caller: CollectorCaller, standing: Standing, read: ReadAck, outcome: Outcome) -> None:
    detail: dict[str, Any] = {"attempt": standing.attempt}
    if read.ack.result_code:
        detail["result_code"] = read.ack.result_code
    if read.ack.message:
        detail["message"] = read.ack.message
    if read.executed_at_ms is not None:
        detail["executed_at"] = read.executed_at_ms
    if outcome.next_attempt_at_ms is not None:
        detail["next_attempt_at"] = outcome.next_attempt_at_ms
    if read.before_snapshot is not None:
        detail["before_snapshot"] = msgspec.Raw(read.before_snapshot.encode())
    if read.after_snapshot is not None:
        detail["after_snapshot"] = msgspec.Raw(read.after_snapshot.encode())
    changes.entries.append(
        AuditEntry(
            caller.site_id,
            f"collector:{caller.device_id}",
            _EVENTS[outcome.event],
            standing.command_id,
            standing.state.value,
            outcome.state.value,
            detail,
        )
    )


def _refused(
    changes: _Changes,
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
    changes.entries.append(AuditEntry(caller.site_id, actor, "ack.refused", known, state, state, detail))
    return refusal


def _write_down(conn: Connection, trail: AuditTrail, changes: _Changes, ends: Ends | None) -> None:
    conn.run_rows(SQL.go_on, changes.going_on)
    conn.run_rows(SQL.hand_back, changes.handed_back)
    disturb(conn, changes.moments)
    conn.run_rows(SQL.finish, changes.finished)
    if changes.entries:
        trail.record_all(conn, changes.entries, ends)


def _answer(command_id: str, state: State, next_attempt_at: int | None, code: str | None) -> AckAnswer:
    at = None if next_attempt_at is None else iso_not_before(next_attempt_at)
    return AckAnswer("ok", command_id, state.value, code is not None, code, None, at)
