"""The checker on hand-written records: it accepts correct records and names each violation."""

from dataclasses import replace

import pytest

from tests.faults.updates.checker import Change, Key, Reading, State, Verdict, check

A: Key = ("app.numbered", "1")
B: Key = ("install.updated", "hash-2")
C: Key = ("app.numbered", "3")
RENEWED: Key = ("cert.renewed", "04:ab")
RENEWED_AGAIN: Key = ("cert.renewed", "05:cd")
WRAPPED: Key = ("cert.wrap_ready", "9")
UPDATED: Key = ("cert.updated", "04:ab")
DEVICE = 7


def acknowledged(*keys: Key) -> list[Change]:
    return [Change(DEVICE, key, acknowledged=True) for key in keys]


def without_response(*keys: Key) -> list[Change]:
    return [Change(DEVICE, key, acknowledged=False) for key in keys]


def reading(*keys: Key, after: int = 0, moved: int | None = None, reader: str = "one") -> Reading:
    end = after + (len(keys) if moved is None else moved)
    return Reading(reader, DEVICE, f"100-{after}", f"100-{end}", keys)


def kinds_of_violation(verdict: Verdict) -> set[str]:
    kinds = ("lost", "repeated", "reordered", "unsolicited", "gaps", "contradictions")
    return {kind for kind in kinds if getattr(verdict, kind)}


def test_everything_once_and_in_order_is_accepted() -> None:
    verdict = check(acknowledged(A, B, C), [reading(A, B), reading(C, after=2)])
    assert verdict.violations == []
    assert (verdict.acknowledged, verdict.unanswered, verdict.delivered) == (3, 0, 3)


@pytest.mark.parametrize("delivered", [(A, C), (A, B, C)])
def test_change_without_response_may_be_delivered_or_not(delivered: tuple[Key, ...]) -> None:
    changes = [*acknowledged(A), *without_response(B), *acknowledged(C)]
    assert check(changes, [reading(*delivered)]).violations == []


@pytest.mark.parametrize(
    ("changes", "delivered", "found"),
    [
        (acknowledged(A, B), (A,), {"lost"}),
        (acknowledged(A, B), (), {"lost"}),
        (acknowledged(A, B), (A, A, B), {"repeated"}),
        (acknowledged(A), (A, A), {"repeated"}),
        (acknowledged(A, B), (B, A), {"reordered"}),
        (acknowledged(A, B, C), (A, C, B), {"reordered"}),
        (acknowledged(A), (A, B), {"unsolicited"}),
        ([*acknowledged(A), *without_response(B)], (B, A), {"reordered"}),
        ([*acknowledged(A), *without_response(B)], (A, B, B), {"repeated"}),
        (acknowledged(RENEWED), (RENEWED,), {"lost"}),
        (acknowledged(RENEWED), (RENEWED, WRAPPED, WRAPPED), {"repeated"}),
        (acknowledged(RENEWED, RENEWED_AGAIN), (RENEWED, WRAPPED, RENEWED_AGAIN), {"lost"}),
        (acknowledged(RENEWED), (RENEWED, UPDATED, WRAPPED), {"reordered"}),
        (acknowledged(RENEWED, RENEWED_AGAIN), (RENEWED, WRAPPED, UPDATED, RENEWED_AGAIN, WRAPPED), {"lost"}),
    ],
)
def test_violation_is_named(changes: list[Change], delivered: tuple[Key, ...], found: set[str]) -> None:
    assert kinds_of_violation(check(changes, [reading(*delivered)])) == found


@pytest.mark.parametrize(
    "delivered", [(RENEWED, WRAPPED, RENEWED_AGAIN, WRAPPED), (WRAPPED, RENEWED, RENEWED_AGAIN, WRAPPED)]
)
def test_wrap_may_be_overtaken_by_the_next_renewal(delivered: tuple[Key, ...]) -> None:
    assert check(acknowledged(RENEWED, RENEWED_AGAIN), [reading(*delivered)]).violations == []


def test_wrap_is_not_part_of_the_order() -> None:
    assert check(acknowledged(RENEWED, A, B), [reading(RENEWED, A, WRAPPED, B)]).violations == []


def test_device_without_readings_has_lost_everything() -> None:
    assert kinds_of_violation(check(acknowledged(A), [])) == {"lost"}


def test_signals_of_another_device_do_not_count() -> None:
    other_device = Reading("one", DEVICE + 1, "0-0", "100-1", (A,))
    assert kinds_of_violation(check(acknowledged(A), [other_device])) == {"lost", "unsolicited"}


def test_each_reader_must_get_everything() -> None:
    readings = [reading(A, B, reader="one"), reading(A, reader="two")]
    assert check(acknowledged(A, B), readings).lost == [f"device {DEVICE}, two: {B}"]


def test_readers_of_one_device_do_not_repeat_each_other() -> None:
    readings = [reading(A, reader="one"), reading(A, reader="two")]
    assert check(acknowledged(A), readings).violations == []


def test_cursor_that_moves_further_than_the_signals_is_a_gap() -> None:
    assert kinds_of_violation(check(acknowledged(A), [reading(A, moved=2)])) == {"gaps"}
    assert kinds_of_violation(check(acknowledged(A), [reading(A), reading(after=1, moved=1)])) == {"gaps"}


def test_reading_that_does_not_start_at_the_previous_end_is_a_gap() -> None:
    assert kinds_of_violation(check(acknowledged(A, B), [reading(A), reading(B, after=5)])) == {"gaps"}


def test_two_changes_with_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="the same key"):
        check(acknowledged(A, A), [reading(A)])


DELIVERED = (("ca.assigned", "x"), ("ca.assigned", "y"), ("ca.unassigned", "x"), B, RENEWED, WRAPPED)
MATCHING_STATE = State(DEVICE, ("hash-2",), frozenset("y"), "04:ab")


def test_delivered_signals_that_match_the_state_are_accepted() -> None:
    changes = acknowledged(*(key for key in DELIVERED if key != WRAPPED))
    assert check(changes, [reading(*DELIVERED)], [MATCHING_STATE]).violations == []


@pytest.mark.parametrize(
    "state",
    [
        replace(MATCHING_STATE, install_hashes=()),
        replace(MATCHING_STATE, install_hashes=("hash-2", "hash-3")),
        replace(MATCHING_STATE, authorities=frozenset("xy")),
        replace(MATCHING_STATE, serial="05:cd"),
    ],
)
def test_state_that_differs_from_the_signals_is_a_contradiction(state: State) -> None:
    changes = acknowledged(*(key for key in DELIVERED if key != WRAPPED))
    assert kinds_of_violation(check(changes, [reading(*DELIVERED)], [state])) == {"contradictions"}


def test_verdict_prints_its_figures() -> None:
    text = str(check([*acknowledged(A, B), *without_response(C)], [reading(A)]))
    assert text.startswith("2 changes acknowledged, 1 unanswered, 1 signals delivered; lost 1, repeated 0")
