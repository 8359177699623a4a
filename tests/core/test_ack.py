import hashlib

import pytest
from msgspec.structs import replace

from restante.core.ack import (
    DEFER_LEAST_MS,
    DELAY_MAX_MS,
    STATUSES,
    Ack,
    AckStatus,
    Outcome,
    Standing,
    Verdict,
    ack_hash,
    judge,
    nonce_fits,
    outcome_of,
    outcome_of_lost_lease,
    retry_delay_ms,
)
from restante.core.command_states import Event, State

NOW = 1_000_000
HOLDER = 7
LEASED = Standing("cmd_1", State.dispatched, HOLDER, NOW + 60_000, 2, "nonce", None, None, 0, 3, 30)
SUCCEEDED = Ack(AckStatus.succeeded, "0", "done")


def verdict(ack: Ack = SUCCEEDED, standing: Standing = LEASED, device: int = HOLDER, required: bool = False) -> Verdict:
    return judge(ack, standing, device, NOW, nonce_required=required)


def test_the_field_says_completed_and_skipped() -> None:
    assert STATUSES["completed"] is AckStatus.succeeded
    assert STATUSES["skipped"] is AckStatus.rejected
    assert len(STATUSES) == 7


def test_the_hash_is_the_contracts_formula() -> None:
    expected = hashlib.sha256(b"cmd_1succeeded0done").hexdigest()
    assert ack_hash("cmd_1", AckStatus.succeeded, "0", "done") == expected
    assert ack_hash("cmd_1", AckStatus.failed, "", "") == hashlib.sha256(b"cmd_1failed").hexdigest()


def test_an_ack_of_the_holder_counts() -> None:
    assert verdict() is Verdict.counts
    assert verdict(replace(SUCCEEDED, nonce="nonce", attempt=2)) is Verdict.counts


def test_the_last_ack_of_this_attempt_is_a_replay() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    acked = replace(LEASED, last_ack_hash=digest, last_ack_attempt=2)
    assert verdict(standing=acked) is Verdict.replayed
    assert verdict(standing=replace(acked, state=State.succeeded)) is Verdict.replayed
    assert verdict(replace(SUCCEEDED, message="other"), acked) is Verdict.counts
    assert verdict(replace(SUCCEEDED, result_code="1"), acked) is Verdict.counts


def test_an_ack_that_names_another_attempt_is_no_replay() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    acked = replace(LEASED, last_ack_hash=digest, last_ack_attempt=2, state=State.succeeded)
    assert verdict(replace(SUCCEEDED, attempt=2), acked) is Verdict.replayed
    assert verdict(replace(SUCCEEDED, attempt=1), acked) is Verdict.finished


def test_the_same_ack_of_an_earlier_attempt_is_none() -> None:
    digest = ack_hash("cmd_1", AckStatus.succeeded, "0", "done")
    assert verdict(standing=replace(LEASED, last_ack_hash=digest, last_ack_attempt=1)) is Verdict.counts


@pytest.mark.parametrize("state", [State.succeeded, State.failed, State.cancelled])
def test_what_has_ended_is_finished_before_anybody_asks_whose_it_was(state: State) -> None:
    assert verdict(standing=replace(LEASED, state=state), device=8) is Verdict.finished


def test_what_has_expired_is_expired() -> None:
    assert verdict(standing=replace(LEASED, state=State.expired), device=8) is Verdict.expired


@pytest.mark.parametrize(
    "standing",
    [
        replace(LEASED, lease_owner=8),
        replace(LEASED, lease_until_ms=NOW),
        replace(LEASED, state=State.pending),
        replace(LEASED, lease_until_ms=None),
    ],
)
def test_only_the_holder_of_a_live_lease_is_heard(standing: Standing) -> None:
    assert verdict(replace(SUCCEEDED, nonce="wrong"), standing) is Verdict.not_owner


def test_the_attempt_is_the_fence() -> None:
    assert verdict(replace(SUCCEEDED, attempt=1)) is Verdict.not_owner


def test_a_nonce_is_compared_when_sent_and_missed_when_required() -> None:
    assert verdict(replace(SUCCEEDED, nonce="wrong")) is Verdict.wrong_nonce
    assert verdict(replace(SUCCEEDED, nonce="")) is Verdict.wrong_nonce
    assert verdict(required=True) is Verdict.wrong_nonce
    assert verdict(replace(SUCCEEDED, nonce="nonce"), required=True) is Verdict.counts
    assert not nonce_fits(LEASED, "n\ud800", is_required=False)


@pytest.mark.parametrize(
    ("status", "event", "state"),
    [
        (AckStatus.succeeded, Event.succeed, State.succeeded),
        (AckStatus.running, Event.run, State.running),
        (AckStatus.rejected, Event.reject, State.failed),
    ],
)
def test_leads_to_its_state_without_another_attempt(status: AckStatus, event: Event, state: State) -> None:
    assert outcome_of(Ack(status, "", ""), LEASED, NOW) == Outcome(event, state, 0, None)


@pytest.mark.parametrize(("retries", "seconds"), [(0, 30), (1, 60), (2, 120)])
def test_a_failure_is_tried_again_after_its_back_off(retries: int, seconds: int) -> None:
    outcome = outcome_of(Ack(AckStatus.failed, "", ""), replace(LEASED, retry_count=retries), NOW)
    assert outcome == Outcome(Event.retry, State.pending, retries + 1, NOW + seconds * 1000)


def test_a_failure_without_a_retry_left_is_the_end() -> None:
    outcome = outcome_of(Ack(AckStatus.failed, "", ""), replace(LEASED, retry_count=3), NOW)
    assert outcome == Outcome(Event.fail, State.failed, 3, None)


def test_a_deferral_uses_no_retry() -> None:
    deferred = Ack(AckStatus.deferred, "", "")
    used_up = replace(LEASED, retry_count=3)
    assert outcome_of(deferred, LEASED, NOW) == Outcome(Event.defer, State.pending, 0, NOW + 30_000)
    assert outcome_of(deferred, used_up, NOW) == Outcome(Event.defer, State.pending, 3, NOW + 240_000)
    assert outcome_of(replace(deferred, defer_seconds=5), LEASED, NOW).next_attempt_at_ms == NOW + 5000
    later = replace(deferred, defer_until_ms=NOW + 77_000, defer_seconds=5)
    assert outcome_of(later, LEASED, NOW).next_attempt_at_ms == NOW + 77_000


def test_a_deferral_is_neither_into_the_past_nor_for_ever() -> None:
    past = Ack(AckStatus.deferred, "", "", defer_until_ms=5)
    assert outcome_of(past, LEASED, NOW).next_attempt_at_ms == NOW + DEFER_LEAST_MS
    far = replace(past, defer_until_ms=10**15)
    assert outcome_of(far, LEASED, NOW).next_attempt_at_ms == NOW + DELAY_MAX_MS


def test_a_lost_lease_is_counted_from_its_end() -> None:
    lost = replace(LEASED, lease_until_ms=500_000, retry_count=1)
    assert outcome_of_lost_lease(lost) == Outcome(Event.lose_lease, State.pending, 2, 560_000)
    assert outcome_of_lost_lease(replace(lost, retry_count=3)) == Outcome(Event.give_up, State.failed, 3, None)


def test_doubling_is_bounded() -> None:
    assert retry_delay_ms(30, 5000) == DELAY_MAX_MS
