import pytest

from restante.core.backoff import Backoff


def test_delays_double_from_the_base() -> None:
    backoff = Backoff()
    assert [backoff.delay_seconds(attempts) for attempts in range(1, 6)] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_delays_are_bounded() -> None:
    backoff = Backoff(base_seconds=1, max_seconds=300, attempts_max=5000)
    assert backoff.delay_seconds(9) == 256.0
    assert backoff.delay_seconds(10) == 300.0
    # Far beyond what a float could hold as a power of two.
    assert backoff.delay_seconds(4999) == 300.0


def test_the_last_attempt_is_followed_by_none() -> None:
    backoff = Backoff()
    assert backoff.delay_seconds(9) == 256.0
    assert backoff.delay_seconds(10) is None
    assert backoff.delay_seconds(11) is None


@pytest.mark.parametrize("attempts", [0, 1])
def test_one_attempt_allowed_means_no_second(attempts: int) -> None:
    assert (Backoff(attempts_max=1).delay_seconds(attempts) is None) == (attempts == 1)
