import pytest

from restante.core.events.poll_acks import (
    NO_VERDICTS,
    Fault,
    count_before_unsigned,
    count_fitting,
    event_limit,
    verdicts_of,
)

WRONG = Fault("jwtIss", "Issuer is invalid")


def test_event_both_acknowledged_and_errored_is_errored() -> None:
    assert verdicts_of(["a", "b"], {"b": WRONG}) == (["a"], {"b": WRONG})


def test_duplicates_are_merged_and_sorted() -> None:
    assert verdicts_of(["b", "a", "b"], {"d": WRONG, "c": WRONG}) == (["a", "b"], {"c": WRONG, "d": WRONG})
    assert list(verdicts_of([], {"d": WRONG, "c": WRONG}).errored) == ["c", "d"]


def test_verdicts_are_false_when_empty() -> None:
    assert not NO_VERDICTS
    assert verdicts_of(["a"], {})
    assert verdicts_of([], {"a": WRONG})


@pytest.mark.parametrize(("max_events", "limit"), [(None, 100), (0, 0), (1, 1), (100, 100), (101, 100), (2**62, 100)])
def test_event_limit_is_capped(max_events: int | None, limit: int) -> None:
    assert event_limit(max_events, cap=100) == limit


@pytest.mark.parametrize(
    ("sizes", "limit", "fit"),
    [
        ([], 5, 0),
        ([10, 10, 10], 0, 0),
        ([10, 10, 10], 2, 2),
        ([10, 10, 10], 5, 3),
        ([10, 10, 11], 5, 2),
        ([31, 1], 5, 1),  # an oversized event is sent alone
        ([1, 31], 5, 1),
    ],
)
def test_events_that_fit_into_thirty_bytes(sizes: list[int], limit: int, fit: int) -> None:
    assert count_fitting(sizes, limit, bytes_max=30) == fit


def test_no_event_overtakes_an_unsigned_one() -> None:
    assert count_before_unsigned(["ready", "errored", "unsigned", "ready"]) == 2
    assert count_before_unsigned(["ready", "ready"]) == 2
    assert count_before_unsigned([]) == 0
