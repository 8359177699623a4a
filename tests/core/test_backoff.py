import pytest

from restante.core.backoff import JITTER, Backoff, PollBackoff

POLLS = PollBackoff(idle_seconds=0.05, idle_seconds_max=5.0, retry_seconds=0.5, retry_seconds_max=30.0)


def test_delays_double_from_the_base() -> None:
    backoff = Backoff(base_seconds=1, max_seconds=300, attempts_max=10)
    assert [backoff.delay_seconds(attempts) for attempts in range(1, 6)] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_delays_are_bounded() -> None:
    backoff = Backoff(base_seconds=1, max_seconds=300, attempts_max=5000)
    assert backoff.delay_seconds(9) == 256.0
    assert backoff.delay_seconds(10) == 300.0
    # Far beyond what a float could hold as a power of two.
    assert backoff.delay_seconds(4999) == 300.0


def test_no_delay_after_the_last_attempt() -> None:
    backoff = Backoff(base_seconds=1, max_seconds=300, attempts_max=10)
    assert backoff.delay_seconds(9) == 256.0
    assert backoff.delay_seconds(10) is None
    assert backoff.delay_seconds(11) is None


@pytest.mark.parametrize("attempts", [0, 1])
def test_one_allowed_attempt_means_no_second(attempts: int) -> None:
    assert (Backoff(base_seconds=1, max_seconds=300, attempts_max=1).delay_seconds(attempts) is None) == (attempts == 1)


def test_poll_delays_double_up_to_their_maximum() -> None:
    idle = [POLLS.after_empty(empty_polls, 0.0) for empty_polls in range(1, 10)]
    assert idle == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    retries = [POLLS.after_failure(failures, 0.0) for failures in range(1, 9)]
    assert retries == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30])


@pytest.mark.parametrize("count", [0, 1, 7, 100, 10_000])
@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_chance_shortens_a_poll_delay_a_little_and_never_lengthens_it(count: int, chance: float) -> None:
    for delay in (POLLS.after_empty, POLLS.after_failure):
        assert delay(count, 0.0) * (1 - JITTER) <= delay(count, chance) <= delay(count, 0.0)


def test_first_poll_delay_beyond_the_maximum_is_the_maximum() -> None:
    assert PollBackoff(idle_seconds=10, idle_seconds_max=2).after_empty(1, 0.0) == 2
