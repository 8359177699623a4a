"""The effect of an ACK on a command: whether it is accepted, the next state, and when a failed command is retried.

Decides from the stored command and the ACK; time is an argument. Does not handle authentication, signatures, or error
responses.

Invariants: an ACK is accepted only under its own lease. Its device holds the lease, the lease is live, and the nonce
and attempt in the ACK, if any, are those of the lease.
"""

import hashlib
import hmac
from enum import Enum, StrEnum

import msgspec

from restante.core.commands.command_states import LEASED, TERMINAL, Event, State, next_state

# The minimum delay of a deferral. Without it a collector could defer a command in a tight loop.
DEFER_MIN_MS = 1000
# The maximum delay, because the back-off doubles with every retry.
DELAY_MAX_MS = 30 * 86_400_000


class AckStatus(StrEnum):
    succeeded = "succeeded"
    failed = "failed"
    deferred = "deferred"
    rejected = "rejected"
    running = "running"


# The contract's names, and the names that older collectors send.
STATUSES = {
    **{status.value: status for status in AckStatus},
    "completed": AckStatus.succeeded,
    "skipped": AckStatus.rejected,
}


# What a collector answers to a command that it has run before: "I will not run it again".
DUPLICATE_STATUS = "skipped"
DUPLICATE_CODE = "2"
DUPLICATE_MESSAGE = "DUPLICATE_IGNORED"


class Ack(msgspec.Struct, frozen=True):
    """The fields of an ACK that decide its outcome. `is_duplicate`: the collector has run the command before, in an
    earlier attempt, and did not run it again."""

    status: AckStatus
    result_code: str
    message: str
    nonce: str | None = None
    attempt: int | None = None
    defer_until_ms: int | None = None
    defer_seconds: int | None = None
    is_duplicate: bool = False


class CommandSnapshot(msgspec.Struct, frozen=True):
    """The stored state of a command that decides about an ACK or an expired lease."""

    command_id: str
    state: State
    lease_owner: int | None
    lease_until_ms: int | None
    attempt: int
    nonce: str | None
    last_ack_hash: str | None
    last_ack_attempt: int | None
    retry_count: int
    max_retries: int
    retry_backoff_seconds: int


class AckVerdict(Enum):
    """The results of the checks, in the order of the checks: the first that applies is returned."""

    replayed = "a repetition of the last ACK of this attempt"
    finished = "the command has ended"
    expired = "the command has expired"
    not_owner = "the device does not hold the lease"
    wrong_nonce = "the nonce does not match the lease"
    accepted = "the ACK is accepted"


class Outcome(msgspec.Struct, frozen=True):
    """The effect of an ACK or an expired lease. `next_attempt_at_ms` is set if the command is dispatched again."""

    event: Event
    state: State
    retry_count: int
    next_attempt_at_ms: int | None = None


def ack_hash(command_id: str, status: AckStatus, result_code: str, message: str) -> str:
    """The contract's formula: the texts concatenated. Absent fields are empty; an alias counts as its standard name."""
    return hashlib.sha256(f"{command_id}{status.value}{result_code}{message}".encode()).hexdigest()


def check_ack(
    ack: Ack, command: CommandSnapshot, device_id: int, now_ms: int, *, is_nonce_required: bool
) -> AckVerdict:
    names_this_attempt = ack.attempt in (None, command.attempt)
    if names_this_attempt and command.last_ack_attempt == command.attempt and _repeats_last_ack(ack, command):
        return AckVerdict.replayed
    if command.state in TERMINAL:
        return AckVerdict.expired if command.state is State.expired else AckVerdict.finished
    if not holds_lease(command, device_id, now_ms) or not names_this_attempt:
        return AckVerdict.not_owner
    if not nonce_matches(command, ack.nonce, is_required=is_nonce_required):
        return AckVerdict.wrong_nonce
    return AckVerdict.accepted


def holds_lease(command: CommandSnapshot, device_id: int, now_ms: int) -> bool:
    return (
        command.state in LEASED
        and command.lease_owner == device_id
        and command.lease_until_ms is not None
        and now_ms < command.lease_until_ms
    )


def nonce_matches(command: CommandSnapshot, nonce: str | None, *, is_required: bool) -> bool:
    if nonce is None:
        return not is_required
    return hmac.compare_digest(nonce.encode("utf-8", "surrogatepass"), (command.nonce or "").encode())


def outcome_of_ack(ack: Ack, command: CommandSnapshot, now_ms: int) -> Outcome:
    """The outcome of an accepted ACK."""
    # A duplicate says nothing new: the command ends as it was left by the attempt that the collector ran.
    event = Event.fail if ack.is_duplicate else _event_of(ack.status, command)
    state = next_state(command.state, event)
    retries = command.retry_count
    if state is not State.pending:
        return Outcome(event, state, retries)
    delay_ms = retry_delay_ms(command.retry_backoff_seconds, retries)
    if event is Event.retry:
        return Outcome(event, state, retries + 1, now_ms + delay_ms)
    deferred_to = _deferred_to(ack, now_ms, delay_ms)
    return Outcome(event, state, retries, min(max(deferred_to, now_ms + DEFER_MIN_MS), now_ms + DELAY_MAX_MS))


def outcome_of_lost_lease(command: CommandSnapshot) -> Outcome:
    """The outcome of an expired lease. The back-off counts from the end of the lease, not from its detection."""
    retries = command.retry_count
    if retries >= command.max_retries:
        return Outcome(Event.give_up, next_state(command.state, Event.give_up), retries)
    at = (command.lease_until_ms or 0) + retry_delay_ms(command.retry_backoff_seconds, retries)
    return Outcome(Event.lose_lease, next_state(command.state, Event.lose_lease), retries + 1, at)


def retry_delay_ms(backoff_seconds: int, retry_count: int) -> int:
    """The back-off before the next retry: it doubles, 30, 60, 120 seconds. `retry_count` counts the retries so far."""
    # The exponent is bounded first: a shift by 5000 would build a very long number.
    return min((backoff_seconds * 1000) << min(retry_count, 40), DELAY_MAX_MS)


def _deferred_to(ack: Ack, now_ms: int, delay_ms: int) -> int:
    """The time that the ACK names, else now plus its delay, else now plus one back-off."""
    if ack.defer_until_ms is not None:
        return ack.defer_until_ms
    return now_ms + (delay_ms if ack.defer_seconds is None else ack.defer_seconds * 1000)


def _repeats_last_ack(ack: Ack, command: CommandSnapshot) -> bool:
    return command.last_ack_hash == ack_hash(command.command_id, ack.status, ack.result_code, ack.message)


def _event_of(status: AckStatus, command: CommandSnapshot) -> Event:
    match status:
        case AckStatus.succeeded:
            return Event.succeed
        case AckStatus.running:
            return Event.run
        case AckStatus.deferred:
            return Event.defer
        case AckStatus.rejected:
            return Event.reject
        case AckStatus.failed:
            return Event.retry if command.retry_count < command.max_retries else Event.fail
