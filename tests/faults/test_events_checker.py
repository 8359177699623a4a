"""The checker of events on made-up records: it is content with what is right, and names each thing that is wrong."""

import pytest

from tests.faults.events_checker import VIOLATIONS, check
from tests.faults.events_records import Got, Kept, Published, Record, Said

PUBLISHED = Published(1, "a")
SECOND = Published(1, "b")
KEPT = Kept(1, "a", "acknowledged", "token")


def got(n: int, jti: str = "a", token: str = "token", position: int = 0, client: int = 1) -> Got:
    return Got(client, n, position, jti, token)


def said(n: int, *, is_error: bool = False, is_answered: bool = True) -> Said:
    return Said(1, n, "a", is_error, is_answered)


RIGHT: dict[str, tuple[list[Record], list[Kept]]] = {
    "acknowledged": ([PUBLISHED, got(1), said(2)], [KEPT]),
    "in error": ([PUBLISHED, got(1), said(2, is_error=True)], [KEPT._replace(status="errored")]),
    "handed out twice": ([PUBLISHED, got(1), got(2), said(3)], [KEPT]),
    "said without an answer, and again": ([PUBLISHED, got(1), said(2, is_answered=False), said(3)], [KEPT]),
    "said without an answer, and it counted": ([PUBLISHED, got(1), said(2, is_answered=False)], [KEPT]),
    "said without an answer, and it did not": (
        [PUBLISHED, got(1), said(2, is_answered=False), got(3)],
        [KEPT._replace(status="ready")],
    ),
    "in the order of publishing": (
        [PUBLISHED, SECOND, got(1), got(1, "b", "other", 1), said(2), Said(1, 2, "b", False, True)],
        [KEPT, Kept(1, "b", "acknowledged", "other")],
    ),
}
WRONG: dict[str, tuple[str, list[Record], list[Kept]]] = {
    "back in the answer": ("returned", [PUBLISHED, got(1), said(2), got(2)], [KEPT]),
    "back later": ("returned", [PUBLISHED, got(1), said(2), got(5)], [KEPT]),
    "gone": ("lost", [PUBLISHED], []),
    "never handed out": ("lost", [PUBLISHED], [KEPT._replace(status="ready")]),
    "said, not kept": ("unsaid", [PUBLISHED, got(1), said(2)], [KEPT._replace(status="ready")]),
    "kept, not said": ("unasked", [PUBLISHED, got(1)], [KEPT]),
    "other bytes": ("changed", [PUBLISHED, got(1), got(2, token="else"), said(3)], [KEPT]),
    "other bytes kept": ("changed", [PUBLISHED, got(1), said(3)], [KEPT._replace(token="else")]),
    "another client's": ("foreign", [PUBLISHED, got(1, client=2), got(1), said(2)], [KEPT]),
    "the wrong way round": (
        "overtaken",
        [PUBLISHED, SECOND, got(1, position=1), got(1, "b", position=0), said(2)],
        [KEPT],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str) -> None:
    assert check(*RIGHT[name]).violations == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    violation, records, kept = WRONG[name]
    assert check(records, kept).found[violation]


def test_every_violation_has_been_found_once() -> None:
    assert {violation for violation, _, _ in WRONG.values()} == set(VIOLATIONS)


def test_a_verdict_counts() -> None:
    verdict = check([PUBLISHED, got(1), got(2), said(3, is_answered=False), said(4)], [KEPT])
    assert (verdict.published, verdict.handed, verdict.redelivered) == (1, 2, 1)
    assert (verdict.acknowledged, verdict.errored, verdict.unanswered) == (1, 0, 1)
    assert "0 violations" in str(verdict)
