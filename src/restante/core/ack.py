"""What an ACK does to a command: whether it counts, where it leads, and when a failed command is tried again.

Decides from what is known of the command and of the ACK; time is an argument. Knows nothing of who is authenticated, of
signatures, or of how refusals are written.

Must always hold: an ACK counts only under the lease it was given for: its device holds the lease, the lease is live,
and whatever the ACK says of nonce and attempt is what the lease says.
"""

import hashlib
import hmac
from enum import Enum, StrEnum

import msgspec

from restante.core.command_states import LEASED, TERMINAL, Event, State, next_state

# A deferral asks for some time; without any, a collector and this server would pass the command to and fro.
DEFER_LEAST_MS = 1000
# Bounds what doubling can lead to, whatever number of retries a command is given.
DELAY_MAX_MS = 30 * 86_400_000


class AckStatus(StrEnum):
    succeeded = "succeeded"
    failed = "failed"
    deferred = "deferred"
    rejected = "rejected"
    running = "running"


# The contract's words and those of collectors in the field.
STATUSES = {
    **{status.value: status for status in AckStatus},
    "completed": AckStatus.succeeded,
    "skipped": AckStatus.rejected,
}


class Ack(msgspec.Struct, frozen=True):
    """What an ACK says, as far as it decides anything."""

    status: AckStatus
    result_code: str
    message: str
    nonce: str | None = None
    attempt: int | None = None
    defer_until_ms: int | None = None
    defer_seconds: int | None = None


class Standing(msgspec.Struct, frozen=True):
    """How a command stands when an ACK for it arrives."""

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


class Verdict(Enum):
    """In the order of the checks: the first that applies counts."""

    replayed = "the last ACK of this attempt, again"
    finished = "the command has ended"
    expired = "the command has expired"
    not_owner = "the device does not hold the lease"
    wrong_nonce = "the nonce is not the lease's"
    counts = "the ACK counts"


class Outcome(msgspec.Struct, frozen=True):
    """Where an ACK leads. `next_attempt_at_ms` is set for what is to be handed out again."""

    event: Event
    state: State
    retry_count: int
    next_attempt_at_ms: int | None = None


def ack_hash(command_id: str, status: AckStatus, result_code: str, message: str) -> str:
    """The contract's formula: the texts one after another; what is absent is empty, an alias is what it stands for."""
    return hashlib.sha256(f"{command_id}{status.value}{result_code}{message}".encode()).hexdigest()


def judge(ack: Ack, standing: Standing, device_id: int, now_ms: int, *, nonce_required: bool) -> Verdict:
    names_this_attempt = ack.attempt in (None, standing.attempt)
    if names_this_attempt and standing.last_ack_attempt == standing.attempt and _is_last(ack, standing):
        return Verdict.replayed
    if standing.state in TERMINAL:
        return Verdict.expired if standing.state is State.expired else Verdict.finished
    if not holds_lease(standing, device_id, now_ms) or not names_this_attempt:
        return Verdict.not_owner
    if not nonce_fits(standing, ack.nonce, is_required=nonce_required):
        return Verdict.wrong_nonce
    return Verdict.counts


def holds_lease(standing: Standing, device_id: int, now_ms: int) -> bool:
    return (
        standing.state in LEASED
        and standing.lease_owner == device_id
        and standing.lease_until_ms is not None
        and now_ms < standing.lease_until_ms
    )


def nonce_fits(standing: Standing, nonce: str | None, *, is_required: bool) -> bool:
    if nonce is None:
        return not is_required
    return hmac.compare_digest(nonce.encode("utf-8", "surrogatepass"), (standing.nonce or "").encode())


def outcome_of(ack: Ack, standing: Standing, now_ms: int) -> Outcome:
    """Where an ACK that counts leads."""
    event = _event_of(ack.status, standing)
    state = next_state(standing.state, event)
    retries = standing.retry_count
    if state is not State.pending:
        return Outcome(event, state, retries)
    delay_ms = retry_delay_ms(standing.retry_backoff_seconds, retries)
    if event is Event.retry:
        return Outcome(event, state, retries + 1, now_ms + delay_ms)
    wanted = _deferred_to(ack, now_ms, delay_ms)
    return Outcome(event, state, retries, min(max(wanted, now_ms + DEFER_LEAST_MS), now_ms + DELAY_MAX_MS))


def outcome_of_lost_lease(standing: Standing) -> Outcome:
    """Where a lease that ran out leads. Counted from its end, whenever that is noticed."""
    retries = standing.retry_count
    if retries >= standing.max_retries:
        return Outcome(Event.give_up, next_state(standing.state, Event.give_up), retries)
    at = (standing.lease_until_ms or 0) + retry_delay_ms(standing.retry_backoff_seconds, retries)
    return Outcome(Event.lose_lease, next_state(standing.state, Event.lose_lease), retries + 1, at)


def retry_delay_ms(backoff_seconds: int, retry_count: int) -> int:
    """`retry_count` is the number before this retry: 30, 60, 120 seconds."""
    # The exponent is bounded before it is used: a shift by 5000 makes a long number.
    return min((backoff_seconds * 1000) << min(retry_count, 40), DELAY_MAX_MS)


def _deferred_to(ack: Ack, now_ms: int, delay_ms: int) -> int:
    """The moment the ACK names, else the time it asks for, else one back-off."""
    if ack.defer_until_ms is not None:
        return ack.defer_until_ms
    return now_ms + (delay_ms if ack.defer_seconds is None else ack.defer_seconds * 1000)


def _is_last(ack: Ack, standing: Standing) -> bool:
    return standing.last_ack_hash == ack_hash(standing.command_id, ack.status, ack.result_code, ack.message)


def _event_of(status: AckStatus, standing: Standing) -> Event:
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
            return Event.retry if standing.retry_count < standing.max_retries else Event.fail
