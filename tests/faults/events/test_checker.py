"""The checker of events on hand-written records: it accepts correct records and names each violation."""

from dataclasses import replace

import pytest

from tests.faults.events.checker import VIOLATIONS, check
from tests.faults.events.records import AckSent, Delivered, FinalEvent, Published, Record

PUBLISHED = Published(1, "a")
SECOND = Published(1, "b")
FINAL = FinalEvent(1, "a", "acknowledged", "token")


def delivered(n: int, jti: str = "a", token: str = "token", position: int = 0, client: int = 1) -> Delivered:
    return Delivered(client, n, position, jti, token)


def acked(n: int, *, is_error: bool = False, has_response: bool = True) -> AckSent:
    return AckSent(1, n, "a", is_error, has_response)


CORRECT: dict[str, tuple[list[Record], list[FinalEvent]]] = {
    "acknowledged": ([PUBLISHED, delivered(1), acked(2)], [FINAL]),
    "in error": ([PUBLISHED, delivered(1), acked(2, is_error=True)], [replace(FINAL, status="errored")]),
    "delivered twice": ([PUBLISHED, delivered(1), delivered(2), acked(3)], [FINAL]),
    "acked without a response, and again": ([PUBLISHED, delivered(1), acked(2, has_response=False), acked(3)], [FINAL]),
    "acked without a response, and applied": ([PUBLISHED, delivered(1), acked(2, has_response=False)], [FINAL]),
    "acked without a response, and not applied": (
        [PUBLISHED, delivered(1), acked(2, has_response=False), delivered(3)],
        [replace(FINAL, status="ready")],
    ),
    "in the order of publishing": (
        [PUBLISHED, SECOND, delivered(1), delivered(1, "b", "other", 1), acked(2), AckSent(1, 2, "b", False, True)],
        [FINAL, FinalEvent(1, "b", "acknowledged", "other")],
    ),
}
VIOLATED: dict[str, tuple[str, list[Record], list[FinalEvent]]] = {
    "again in the response": ("redelivered", [PUBLISHED, delivered(1), acked(2), delivered(2)], [FINAL]),
    "again later": ("redelivered", [PUBLISHED, delivered(1), acked(2), delivered(5)], [FINAL]),
    "gone": ("lost", [PUBLISHED], []),
    "never delivered": ("lost", [PUBLISHED], [replace(FINAL, status="ready")]),
    "acked, not applied": ("ack_lost", [PUBLISHED, delivered(1), acked(2)], [replace(FINAL, status="ready")]),
    "applied, not acked": ("unsolicited", [PUBLISHED, delivered(1)], [FINAL]),
    "other bytes": ("token_changed", [PUBLISHED, delivered(1), delivered(2, token="else"), acked(3)], [FINAL]),
    "other bytes at the end": ("token_changed", [PUBLISHED, delivered(1), acked(3)], [replace(FINAL, token="else")]),
    "to another client": ("wrong_client", [PUBLISHED, delivered(1, client=2), delivered(1), acked(2)], [FINAL]),
    "in the wrong order": (
        "out_of_order",
        [PUBLISHED, SECOND, delivered(1, position=1), delivered(1, "b", position=0), acked(2)],
        [FINAL],
    ),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_records_are_accepted(name: str) -> None:
    assert check(*CORRECT[name]).violations == []


@pytest.mark.parametrize("name", VIOLATED)
def test_violation_is_named(name: str) -> None:
    violation, records, final = VIOLATED[name]
    assert check(records, final).found[violation]


def test_every_kind_of_violation_has_a_case() -> None:
    assert {violation for violation, _, _ in VIOLATED.values()} == set(VIOLATIONS)


def test_verdict_counts() -> None:
    verdict = check([PUBLISHED, delivered(1), delivered(2), acked(3, has_response=False), acked(4)], [FINAL])
    assert (verdict.published, verdict.delivered, verdict.repeated) == (1, 2, 1)
    assert (verdict.acknowledged, verdict.errored, verdict.without_response) == (1, 0, 1)
    assert "0 violations" in str(verdict)
