import hashlib

import pytest
from msgspec.structs import replace

from restante.core.commands.ack import (
    DEFER_MIN_MS,
    DELAY_MAX_MS,
    STATUSES,
    Ack,
    AckStatus,
    AckVerdict,
    CommandSnapshot,
    Outcome,
    ack_hash,
    check_ack,
    nonce_matches,
    outcome_of_ack,
    outcome_of_lost_lease,
    retry_delay_ms,
)
from restante.core.commands.command_states import Event, State

NOW = 1_000_000
OWNER = 7
LEASED = CommandSnapshot("cmd_1", State.dispatched, OWNER, NOW + 60_000, 2, "nonce", None, None, 0, 3, 30)
SUCCEEDED = Ack(AckStatus.succeeded, "0", "done")


def verdict(
    ack: Ack = SUCCEEDED, command: CommandSnapshot = LEASED, device: int = OWNER, required: bool = False
) -> AckVerdict:
    return check_ack(ack, command, device, NOW, is_nonce_required=required)


def test_older_collectors_send_completed_and_skipped() -> None:
    assert STATUSES["completed"] is AckStatus.succeeded
    assert STATUSES["skipped"] is AckStatus.rejected
    assert len(STATUSES) == 7


def test_hash_follows_the_formula_of_the_contract() -> None:
    expected = hashlib.sha256(b"cmd_1succeeded0done").hexdigest()
    assert ack_hash("cmd_1", AckStatus.succeeded, "0", "done") == expected
    assert ack_hash("cmd_1", AckStatus.failed, "", "") == hashlib.sha256(b"cmd_1failed").hexdigest()


def test_ack_by_the_lease_owner_is_accepted() -> None:
    assert verdict() is AckVerdict.accepted
    assert verdict(replace(SUCCEEDED, nonce="nonce", attempt=2)) is AckVerdict.accepted


def test_repeated_last_ack_of_the_attempt_is_a_replay() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    acked = replace(LEASED, last_ack_hash=digest, last_ack_attempt=2)
    assert verdict(command=acked) is AckVerdict.replayed
    assert verdict(command=replace(acked, state=State.succeeded)) is AckVerdict.replayed
    assert verdict(replace(SUCCEEDED, message="other"), acked) is AckVerdict.accepted
    assert verdict(replace(SUCCEEDED, result_code="1"), acked) is AckVerdict.accepted


def test_ack_with_another_attempt_is_not_a_replay() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    acked = replace(LEASED, last_ack_hash=digest, last_ack_attempt=2, state=State.succeeded)
    assert verdict(replace(SUCCEEDED, attempt=2), acked) is AckVerdict.replayed
    assert verdict(replace(SUCCEEDED, attempt=1), acked) is AckVerdict.finished


def test_same_ack_of_an_earlier_attempt_is_not_a_replay() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    assert verdict(command=replace(LEASED, last_ack_hash=digest, last_ack_attempt=1)) is AckVerdict.accepted


@pytest.mark.parametrize("state", [State.succeeded, State.failed, State.cancelled])
def test_ended_command_is_reported_before_the_lease_owner_is_checked(state: State) -> None:
    assert verdict(command=replace(LEASED, state=state), device=8) is AckVerdict.finished


def test_expired_command_is_reported_as_expired() -> None:
    assert verdict(command=replace(LEASED, state=State.expired), device=8) is AckVerdict.expired


@pytest.mark.parametrize(
    "command",
    [
        replace(LEASED, lease_owner=8),
        replace(LEASED, lease_until_ms=NOW),
        replace(LEASED, state=State.pending),
        replace(LEASED, lease_until_ms=None),
    ],
)
def test_ack_without_a_live_lease_is_refused(command: CommandSnapshot) -> None:
    assert verdict(replace(SUCCEEDED, nonce="wrong"), command) is AckVerdict.not_owner


def test_ack_of_an_earlier_attempt_is_refused() -> None:
    assert verdict(replace(SUCCEEDED, attempt=1)) is AckVerdict.not_owner


def test_nonce_is_compared_if_sent_and_refused_if_required_and_missing() -> None:
    assert verdict(replace(SUCCEEDED, nonce="wrong")) is AckVerdict.wrong_nonce
    assert verdict(replace(SUCCEEDED, nonce="")) is AckVerdict.wrong_nonce
    assert verdict(required=True) is AckVerdict.wrong_nonce
    assert verdict(replace(SUCCEEDED, nonce="nonce"), required=True) is AckVerdict.accepted
    assert not nonce_matches(LEASED, "n\ud800", is_required=False)


@pytest.mark.parametrize(
    ("status", "event", "state"),
    [
        (AckStatus.succeeded, Event.succeed, State.succeeded),
        (AckStatus.running, Event.run, State.running),
        (AckStatus.rejected, Event.reject, State.failed),
    ],
)
def test_status_leads_to_its_state_without_a_retry(status: AckStatus, event: Event, state: State) -> None:
    assert outcome_of_ack(Ack(status, "", ""), LEASED, NOW) == Outcome(event, state, 0, None)


@pytest.mark.parametrize(("retries", "seconds"), [(0, 30), (1, 60), (2, 120)])
def test_failed_command_is_retried_after_its_back_off(retries: int, seconds: int) -> None:
    outcome = outcome_of_ack(Ack(AckStatus.failed, "", ""), replace(LEASED, retry_count=retries), NOW)
    assert outcome == Outcome(Event.retry, State.pending, retries + 1, NOW + seconds * 1000)


def test_failed_command_without_a_retry_left_ends() -> None:
    outcome = outcome_of_ack(Ack(AckStatus.failed, "", ""), replace(LEASED, retry_count=3), NOW)
    assert outcome == Outcome(Event.fail, State.failed, 3, None)


def test_deferral_uses_no_retry() -> None:
    deferred = Ack(AckStatus.deferred, "", "")
    used_up = replace(LEASED, retry_count=3)
    assert outcome_of_ack(deferred, LEASED, NOW) == Outcome(Event.defer, State.pending, 0, NOW + 30_000)
    assert outcome_of_ack(deferred, used_up, NOW) == Outcome(Event.defer, State.pending, 3, NOW + 240_000)
    assert outcome_of_ack(replace(deferred, defer_seconds=5), LEASED, NOW).next_attempt_at_ms == NOW + 5000
    later = replace(deferred, defer_until_ms=NOW + 77_000, defer_seconds=5)
    assert outcome_of_ack(later, LEASED, NOW).next_attempt_at_ms == NOW + 77_000


def test_deferral_time_is_bounded_in_both_directions() -> None:
    past = Ack(AckStatus.deferred, "", "", defer_until_ms=5)
    assert outcome_of_ack(past, LEASED, NOW).next_attempt_at_ms == NOW + DEFER_MIN_MS
    far = replace(past, defer_until_ms=10**15)
    assert outcome_of_ack(far, LEASED, NOW).next_attempt_at_ms == NOW + DELAY_MAX_MS


def test_back_off_of_an_expired_lease_counts_from_its_end() -> None:
    lost = replace(LEASED, lease_until_ms=500_000, retry_count=1)
    assert outcome_of_lost_lease(lost) == Outcome(Event.lose_lease, State.pending, 2, 560_000)
    assert outcome_of_lost_lease(replace(lost, retry_count=3)) == Outcome(Event.give_up, State.failed, 3, None)


def test_back_off_is_bounded() -> None:
    assert retry_delay_ms(30, 5000) == DELAY_MAX_MS
