"""The checker on made-up records: it is content with what is right, and names each thing that is wrong."""

import pytest

from tests.faults.checker import Change, Key, Reading, State, Verdict, check

A: Key = ("app.numbered", "1")
B: Key = ("install.updated", "hash-2")
C: Key = ("app.numbered", "3")
RENEWED: Key = ("cert.renewed", "04:ab")
RENEWED_AGAIN: Key = ("cert.renewed", "05:cd")
WRAPPED: Key = ("cert.wrap_ready", "9")
DEVICE = 7


def acknowledged(*keys: Key) -> list[Change]:
    return [Change(DEVICE, key, acknowledged=True) for key in keys]


def unanswered(*keys: Key) -> list[Change]:
    return [Change(DEVICE, key, acknowledged=False) for key in keys]


def reading(*keys: Key, after: int = 0, moved: int | None = None, reader: str = "one") -> Reading:
    end = after + (len(keys) if moved is None else moved)
    return Reading(reader, DEVICE, f"100-{after}", f"100-{end}", keys)


def kinds_of_violation(verdict: Verdict) -> set[str]:
    kinds = ("lost", "repeated", "reordered", "uninvited", "gaps", "contradictions")
    return {kind for kind in kinds if getattr(verdict, kind)}


def test_everything_once_and_in_order_holds() -> None:
    verdict = check(acknowledged(A, B, C), [reading(A, B), reading(C, after=2)])
    assert verdict.violations == []
    assert (verdict.acknowledged, verdict.unanswered, verdict.delivered) == (3, 0, 3)


@pytest.mark.parametrize("told", [(A, C), (A, B, C)])
def test_what_was_not_answered_may_be_told_or_not(told: tuple[Key, ...]) -> None:
    changes = [*acknowledged(A), *unanswered(B), *acknowledged(C)]
    assert check(changes, [reading(*told)]).violations == []


@pytest.mark.parametrize(
    ("changes", "told", "found"),
    [
        (acknowledged(A, B), (A,), {"lost"}),
        (acknowledged(A, B), (), {"lost"}),
        (acknowledged(A, B), (A, A, B), {"repeated"}),
        (acknowledged(A), (A, A), {"repeated"}),
        (acknowledged(A, B), (B, A), {"reordered"}),
        (acknowledged(A, B, C), (A, C, B), {"reordered"}),
        (acknowledged(A), (A, B), {"uninvited"}),
        ([*acknowledged(A), *unanswered(B)], (B, A), {"reordered"}),
        ([*acknowledged(A), *unanswered(B)], (A, B, B), {"repeated"}),
        (acknowledged(RENEWED), (RENEWED,), {"lost"}),
        (acknowledged(RENEWED), (RENEWED, WRAPPED, WRAPPED), {"repeated"}),
        (acknowledged(RENEWED, RENEWED_AGAIN), (RENEWED, WRAPPED, RENEWED_AGAIN), {"lost"}),
    ],
)
def test_what_is_wrong_is_named(changes: list[Change], told: tuple[Key, ...], found: set[str]) -> None:
    assert kinds_of_violation(check(changes, [reading(*told)])) == found


@pytest.mark.parametrize(
    "told", [(RENEWED, WRAPPED, RENEWED_AGAIN, WRAPPED), (WRAPPED, RENEWED, RENEWED_AGAIN, WRAPPED)]
)
def test_a_wrap_may_be_overtaken_by_the_next_renewal(told: tuple[Key, ...]) -> None:
    assert check(acknowledged(RENEWED, RENEWED_AGAIN), [reading(*told)]).violations == []


def test_a_wrap_has_no_place_in_the_order() -> None:
    assert check(acknowledged(RENEWED, A, B), [reading(RENEWED, A, WRAPPED, B)]).violations == []


def test_a_device_that_nobody_read_has_lost_everything() -> None:
    assert kinds_of_violation(check(acknowledged(A), [])) == {"lost"}


def test_another_devices_signals_do_not_count() -> None:
    elsewhere = Reading("one", DEVICE + 1, "0-0", "100-1", (A,))
    assert kinds_of_violation(check(acknowledged(A), [elsewhere])) == {"lost", "uninvited"}


def test_each_reader_is_told_everything() -> None:
    both = [reading(A, B, reader="one"), reading(A, reader="two")]
    assert check(acknowledged(A, B), both).lost == [f"device {DEVICE}, two: {B}"]


def test_readers_of_one_device_do_not_repeat_each_other() -> None:
    both = [reading(A, reader="one"), reading(A, reader="two")]
    assert check(acknowledged(A), both).violations == []


def test_a_cursor_that_moved_further_than_the_signals_is_a_gap() -> None:
    assert kinds_of_violation(check(acknowledged(A), [reading(A, moved=2)])) == {"gaps"}
    assert kinds_of_violation(check(acknowledged(A), [reading(A), reading(after=1, moved=1)])) == {"gaps"}


def test_a_reading_that_does_not_begin_where_the_last_ended_is_a_gap() -> None:
    assert kinds_of_violation(check(acknowledged(A, B), [reading(A), reading(B, after=5)])) == {"gaps"}


def test_two_changes_with_one_key_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="the same key"):
        check(acknowledged(A, A), [reading(A)])


TOLD = (("ca.assigned", "x"), ("ca.assigned", "y"), ("ca.unassigned", "x"), B, RENEWED, WRAPPED)
TRUE_STATE = State(DEVICE, ("hash-2",), frozenset("y"), "04:ab")


def test_what_was_told_is_what_is_the_case() -> None:
    changes = acknowledged(*(key for key in TOLD if key != WRAPPED))
    assert check(changes, [reading(*TOLD)], [TRUE_STATE]).violations == []


@pytest.mark.parametrize(
    "state",
    [
        TRUE_STATE._replace(install_hashes=()),
        TRUE_STATE._replace(install_hashes=("hash-2", "hash-3")),
        TRUE_STATE._replace(authorities=frozenset("xy")),
        TRUE_STATE._replace(serial="05:cd"),
    ],
)
def test_a_state_that_was_not_told_is_a_contradiction(state: State) -> None:
    changes = acknowledged(*(key for key in TOLD if key != WRAPPED))
    assert kinds_of_violation(check(changes, [reading(*TOLD)], [state])) == {"contradictions"}


def test_the_verdict_prints_its_figures() -> None:
    text = str(check([*acknowledged(A, B), *unanswered(C)], [reading(A)]))
    assert text.startswith("2 changes acknowledged, 1 unanswered, 1 signals delivered; lost 1, repeated 0")
