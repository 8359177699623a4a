"""The checker of pushing on made-up records: it is content with what is right, and names each thing that is wrong."""

import pytest

from tests.faults.push_checker import VIOLATIONS, check
from tests.faults.push_records import Death, Kept, Published, Pushed, Records

A, B, C = (Published("/1", jti) for jti in "abc")
ACKNOWLEDGED = [Kept(jti, "acknowledged") for jti in "abc"]


def sent(jti: str, at: float, status: int | None = 202, connection: int = 1, receiver: str = "/1") -> Pushed:
    """Sent at that moment, and answered half a second later."""
    return Pushed(receiver, connection, jti, f"token of {jti}", at, at + 0.5, status)


def records(*seen: Published | Pushed | Death, kept: str = "") -> Records:
    """With all that was published acknowledged in the end, or these."""
    published = [each for each in seen if isinstance(each, Published)]
    jtis = kept or "".join(each.jti for each in published)
    return Records(
        published,
        [each for each in seen if isinstance(each, Pushed)],
        [each for each in seen if isinstance(each, Death)],
        [each for each in ACKNOWLEDGED if each.jti in jtis],
    )


KILL = Death(10.2, 10.3)
RIGHT: dict[str, Records] = {
    "one after another": records(A, B, sent("a", 10), sent("b", 11)),
    "failed, and tried again": records(A, B, sent("a", 10, 503), sent("a", 11, None), sent("a", 12), sent("b", 13)),
    "refused, and overtaken": records(A, B, sent("a", 10, 400), sent("b", 11), sent("a", 12)),
    "taken, and again after a kill": records(A, B, sent("a", 10), KILL, sent("a", 20, 202, 2), sent("b", 21, 202, 2)),
    "sent by who was dead when it was read": records(A, Death(9.0, 9.1), sent("a", 10), sent("a", 20, 202, 2)),
    "taken, a kill, an older one, and again": records(
        A, B, sent("a", 8, 400), sent("b", 10), KILL, sent("a", 20, 202, 2), sent("b", 21, 202, 2)
    ),
    "two receivers at once": Records(
        [A, Published("/2", "b")], [sent("a", 10), sent("b", 10.1, receiver="/2")], [], ACKNOWLEDGED[:2]
    ),
}
WRONG: dict[str, tuple[str, Records]] = {
    "never sent": ("lost", Records([A], [], [], [Kept("a", "ready")])),
    "gone": ("lost", Records([A], [sent("a", 10)], [], [])),
    "taken, and waiting": ("lost", Records([A], [sent("a", 10)], [], [Kept("a", "ready")])),
    "acknowledged and never taken": ("unasked", records(A, sent("a", 10, 503))),
    "again without a kill": ("again", records(A, sent("a", 10), sent("a", 11))),
    "again later": ("again", records(A, B, sent("a", 10), sent("b", 11), sent("a", 12))),
    "again after a kill that came too late": (
        "again",
        records(A, B, sent("a", 10), sent("b", 11), Death(11.1, 11.2), sent("b", 20), sent("a", 21)),
    ),
    "again after a kill long before": ("again", records(A, Death(1.0, 1.1), sent("a", 10), sent("a", 20))),
    "from both at once": ("together", records(A, Death(10.1, 10.2), sent("a", 10), sent("a", 10.4, 202, 2))),
    "two events at once": ("together", records(A, B, sent("a", 10), sent("b", 10.4, 202, 2))),
    "the newer first": ("overtaken", records(A, B, sent("b", 10), sent("a", 11))),
    "before one that failed": ("overtaken", records(A, B, sent("a", 10, 503), sent("b", 11), sent("a", 12))),
    "other bytes": ("changed", records(A, sent("a", 10, 503), sent("a", 11)._replace(token="other"))),
    "to another": ("foreign", records(A, sent("a", 10), sent("a", 11, receiver="/2"))),
    "that nobody published": ("foreign", records(A, sent("a", 10), sent("b", 11))),
    "published twice": ("doubled", records(A, sent("a", 10), kept="ab")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_content_with_what_is_right(name: str) -> None:
    assert check(RIGHT[name]).violations == []


@pytest.mark.parametrize("name", WRONG)
def test_it_names_what_is_wrong(name: str) -> None:
    violation, seen = WRONG[name]
    assert check(seen).found[violation]


def test_every_violation_is_tried() -> None:
    assert {violation for violation, _ in WRONG.values()} == set(VIOLATIONS)


def test_it_counts() -> None:
    verdict = check(
        records(A, B, sent("a", 9, 400), sent("b", 9.7, 503), sent("a", 10), KILL, sent("a", 20), sent("b", 21))
    )
    assert (verdict.published, verdict.pushed, verdict.refused, verdict.failed) == (2, 5, 1, 1)
    assert (verdict.repeated, verdict.interrupted) == (1, 1)
    assert str(verdict).startswith("2 events, sent 5 times: 1 refused, 1 failed, 1 sent again")
