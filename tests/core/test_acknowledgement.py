import pytest

from restante.core.acknowledgement import (
    NO_VERDICTS,
    Fault,
    events_wanted,
    how_many_fit,
    ready_before_unsigned,
    verdicts_of,
)

WRONG = Fault("jwtIss", "Issuer is invalid")


def test_an_event_called_both_right_and_wrong_is_wrong() -> None:
    assert verdicts_of(["a", "b"], {"b": WRONG}) == (["a"], {"b": WRONG})


def test_what_is_said_twice_is_said_once_and_in_one_order() -> None:
    assert verdicts_of(["b", "a", "b"], {"d": WRONG, "c": WRONG}) == (["a", "b"], {"c": WRONG, "d": WRONG})
    assert list(verdicts_of([], {"d": WRONG, "c": WRONG}).errored) == ["c", "d"]


def test_whether_anything_is_said() -> None:
    assert not NO_VERDICTS
    assert verdicts_of(["a"], {})
    assert verdicts_of([], {"a": WRONG})


@pytest.mark.parametrize(("max_events", "wanted"), [(None, 100), (0, 0), (1, 1), (100, 100), (101, 100), (2**62, 100)])
def test_how_many_events_are_wanted(max_events: int | None, wanted: int) -> None:
    assert events_wanted(max_events, cap=100) == wanted


@pytest.mark.parametrize(
    ("sizes", "wanted", "fit"),
    [
        ([], 5, 0),
        ([10, 10, 10], 0, 0),
        ([10, 10, 10], 2, 2),
        ([10, 10, 10], 5, 3),
        ([10, 10, 11], 5, 2),
        ([31, 1], 5, 1),  # one that is too large goes alone
        ([1, 31], 5, 1),
    ],
)
def test_how_many_fit_into_thirty_bytes(sizes: list[int], wanted: int, fit: int) -> None:
    assert how_many_fit(sizes, wanted, bytes_max=30) == fit


def test_none_overtakes_one_that_is_to_be_signed() -> None:
    assert ready_before_unsigned(["ready", "errored", "unsigned", "ready"]) == 2
    assert ready_before_unsigned(["ready", "ready"]) == 2
    assert ready_before_unsigned([]) == 0
