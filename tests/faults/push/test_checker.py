"""The checker of push on hand-written records: it accepts correct records and names each violation."""

from dataclasses import replace

import pytest

from tests.faults.push.checker import VIOLATIONS, check
from tests.faults.push.records import FinalEvent, Kill, Published, PushRequest, Records

A, B, C = (Published("/1", jti) for jti in "abc")
ACKNOWLEDGED = [FinalEvent(jti, "acknowledged") for jti in "abc"]


def sent(jti: str, at: float, status: int | None = 202, connection: int = 1, receiver: str = "/1") -> PushRequest:
    """A request at that time, with a response half a second later."""
    return PushRequest(receiver, connection, jti, f"token of {jti}", at, at + 0.5, status)


def records(*observed: Published | PushRequest | Kill, final: str = "") -> Records:
    """Records where at the end all published events, or the ones in `final`, are acknowledged."""
    published = [each for each in observed if isinstance(each, Published)]
    jtis = final or "".join(each.jti for each in published)
    return Records(
        published,
        [each for each in observed if isinstance(each, PushRequest)],
        [each for each in observed if isinstance(each, Kill)],
        [each for each in ACKNOWLEDGED if each.jti in jtis],
    )


KILL = Kill(10.2, 10.3)
CORRECT: dict[str, Records] = {
    "in order": records(A, B, sent("a", 10), sent("b", 11)),
    "failed, and tried again": records(A, B, sent("a", 10, 503), sent("a", 11, None), sent("a", 12), sent("b", 13)),
    "refused, and overtaken": records(A, B, sent("a", 10, 400), sent("b", 11), sent("a", 12)),
    "accepted, and again after a kill": records(
        A, B, sent("a", 10), KILL, sent("a", 20, 202, 2), sent("b", 21, 202, 2)
    ),
    "read after its sender was killed": records(A, Kill(9.0, 9.1), sent("a", 10), sent("a", 20, 202, 2)),
    "accepted, a kill, an older event, and again": records(
        A, B, sent("a", 8, 400), sent("b", 10), KILL, sent("a", 20, 202, 2), sent("b", 21, 202, 2)
    ),
    "two receivers at once": Records(
        [A, Published("/2", "b")], [sent("a", 10), sent("b", 10.1, receiver="/2")], [], ACKNOWLEDGED[:2]
    ),
}
VIOLATED: dict[str, tuple[str, Records]] = {
    "never sent": ("lost", Records([A], [], [], [FinalEvent("a", "ready")])),
    "gone": ("lost", Records([A], [sent("a", 10)], [], [])),
    "accepted, and not acknowledged": ("lost", Records([A], [sent("a", 10)], [], [FinalEvent("a", "ready")])),
    "acknowledged and never accepted": ("unsolicited", records(A, sent("a", 10, 503))),
    "again without a kill": ("repeated", records(A, sent("a", 10), sent("a", 11))),
    "again later": ("repeated", records(A, B, sent("a", 10), sent("b", 11), sent("a", 12))),
    "again after a kill that came too late": (
        "repeated",
        records(A, B, sent("a", 10), sent("b", 11), Kill(11.1, 11.2), sent("b", 20), sent("a", 21)),
    ),
    "again after a kill long before": ("repeated", records(A, Kill(1.0, 1.1), sent("a", 10), sent("a", 20))),
    "from two nodes at once": ("concurrent", records(A, Kill(10.1, 10.2), sent("a", 10), sent("a", 10.4, 202, 2))),
    "two events at once": ("concurrent", records(A, B, sent("a", 10), sent("b", 10.4, 202, 2))),
    "the newer event first": ("out_of_order", records(A, B, sent("b", 10), sent("a", 11))),
    "before one that failed": ("out_of_order", records(A, B, sent("a", 10, 503), sent("b", 11), sent("a", 12))),
    "other bytes": ("token_changed", records(A, sent("a", 10, 503), replace(sent("a", 11), token="other"))),
    "to another receiver": ("wrong_receiver", records(A, sent("a", 10), sent("a", 11, receiver="/2"))),
    "never published": ("wrong_receiver", records(A, sent("a", 10), sent("b", 11))),
    "published twice": ("published_twice", records(A, sent("a", 10), final="ab")),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_records_are_accepted(name: str) -> None:
    assert check(CORRECT[name]).violations == []


@pytest.mark.parametrize("name", VIOLATED)
def test_violation_is_named(name: str) -> None:
    violation, observed = VIOLATED[name]
    assert check(observed).found[violation]


def test_every_kind_of_violation_has_a_case() -> None:
    assert {violation for violation, _ in VIOLATED.values()} == set(VIOLATIONS)


def test_verdict_counts() -> None:
    verdict = check(
        records(A, B, sent("a", 9, 400), sent("b", 9.7, 503), sent("a", 10), KILL, sent("a", 20), sent("b", 21))
    )
    assert (verdict.published, verdict.sent, verdict.refused, verdict.failed) == (2, 5, 1, 1)
    assert (verdict.repeated, verdict.interrupted) == (1, 1)
    assert str(verdict).startswith("2 events, sent 5 times: 1 refused, 1 failed, 1 sent again")
