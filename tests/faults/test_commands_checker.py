"""The checker of commands on made-up records: it is content with what is right, and names each thing that is wrong."""

import pytest

from tests.faults.commands_checker import Verdict, check
from tests.faults.commands_records import Acked, Decided, Handed, Kept, Made, Record, Row

C = "cmd_1"
ONE, TWO = 1, 2
LEASE_LOST = Row(3, "restante", "command.lease_lost", "dispatched", "pending", 1)


def by(device: int) -> str:
    return f"collector:{device}"


def created(n: int = 1, status: str = "pending") -> Row:
    return Row(n, "key:maker", "command.created", None, status)


def dispatched(n: int, device: int, attempt: int) -> Row:
    return Row(n, by(device), "command.dispatched", "pending", "dispatched", attempt)


def succeeded(n: int, device: int, attempt: int) -> Row:
    return Row(n, by(device), "command.succeeded", "dispatched", "succeeded", attempt)


def refused(n: int, device: int, state: str = "dispatched", error: str = "NONCE_MISMATCH") -> Row:
    return Row(n, by(device), "ack.refused", state, state, 2, error)


def taken(device: int = ONE, attempt: int = 1, *, late: bool = False, replayed: bool = False) -> Acked:
    return Acked(device, C, attempt, "succeeded", late, 200, replayed, "succeeded")


def turned_down(device: int = ONE, attempt: int = 1, *, late: bool = True) -> Acked:
    return Acked(device, C, attempt, "succeeded", late, 401, error="NONCE_MISMATCH")


def unanswered(device: int = ONE, attempt: int = 1) -> Acked:
    return Acked(device, C, attempt, "succeeded", False, None)


def kept(*rows: Row, status: str = "succeeded", attempt: int = 1, key: str | None = None, command: str = C) -> Kept:
    return Kept(command, status, attempt, key, rows)


MADE = Made(C, "pending")
FIRST, SECOND = Handed(ONE, C, 1), Handed(TWO, C, 2)
DONE = kept(created(), dispatched(2, ONE, 1), succeeded(3, ONE, 1))
TWICE = (created(), dispatched(2, ONE, 1), LEASE_LOST, dispatched(4, TWO, 2))
STALE = kept(*TWICE, refused(5, ONE), succeeded(6, TWO, 2), attempt=2)
UNRECORDED = kept(*TWICE, succeeded(5, TWO, 2), attempt=2)
HELD = kept(created(), dispatched(2, ONE, 1), status="dispatched")
REVIVED = kept(*DONE.rows, dispatched(4, TWO, 2), attempt=2, status="dispatched")
ENDED_BY_REFUSAL = kept(*HELD.rows, refused(3, ONE)._replace(to_state="failed"), status="failed")
OTHER_REFUSAL = turned_down()._replace(error="OTHER")


def judged(records: list[Record], *end: Kept) -> Verdict:
    return check(records, end)


@pytest.mark.parametrize(
    ("records", "end"),
    [
        ([MADE, FIRST, taken()], DONE),
        ([MADE, FIRST, taken(), taken(replayed=True), unanswered()], DONE),
        ([MADE, FIRST, unanswered(), taken(replayed=True)], DONE),
        # The answer to the poll, or to the ACK, was lost with the server.
        ([MADE, unanswered()], DONE),
        ([MADE, FIRST, SECOND, turned_down(), taken(TWO, 2)], STALE),
        ([MADE, FIRST, SECOND, unanswered(), taken(TWO, 2)], STALE),
    ],
)
def test_what_is_right_holds(records: list[Record], end: Kept) -> None:
    assert judged(records, end).violations == []


@pytest.mark.parametrize(
    ("records", "end", "found"),
    [
        # Two holders of one attempt, one holder twice, an attempt that goes back.
        ([MADE, FIRST, Handed(TWO, C, 1), taken()], DONE, "held_twice contradictions"),
        ([MADE, FIRST, FIRST, taken()], DONE, "held_twice"),
        ([MADE, Handed(ONE, C, 2), FIRST, taken()], DONE, "held_twice contradictions handed_after_end"),
        # An ACK that was taken is not there after all, or is there twice.
        ([MADE, FIRST, taken()], HELD, "lost_acks unfinished"),
        ([MADE, FIRST, SECOND, taken(), taken(TWO, 2)], UNRECORDED, "lost_acks handed_after_end"),
        ([MADE, FIRST, taken(), taken()], DONE, "doubled"),
        # Taken too late, by its own words or by the trail's.
        ([MADE, FIRST, taken(late=True)], DONE, "stale_taken"),
        ([MADE, FIRST, taken(late=True, replayed=True)], DONE, "stale_taken"),
        ([MADE, FIRST, SECOND, taken()], kept(*TWICE, succeeded(5, ONE, 1), attempt=2), "stale_taken handed_after_end"),
        ([MADE, FIRST, SECOND, unanswered(ONE, 2)], kept(*TWICE, succeeded(5, ONE, 2), attempt=2), "stale_taken"),
        # Refused and not recorded, or recorded and never sent.
        ([MADE, FIRST, SECOND, turned_down(), taken(TWO, 2)], UNRECORDED, "unrecorded"),
        ([MADE, FIRST, SECOND, turned_down(), turned_down(), taken(TWO, 2)], STALE, "unrecorded"),
        ([MADE, FIRST, SECOND, OTHER_REFUSAL, taken(TWO, 2)], STALE, "unrecorded uninvited"),
        ([MADE, FIRST, SECOND, taken(TWO, 2)], STALE, "uninvited"),
        # Refused and taken all the same; taken and never sent.
        ([MADE, FIRST, turned_down()], kept(*DONE.rows, refused(4, ONE, "succeeded")), "uninvited"),
        ([MADE, FIRST], DONE, "uninvited"),
        # Handed out when it had ended.
        ([MADE, FIRST, taken()], REVIVED, "handed_after_end contradictions lost_acks unfinished"),
        # Lost, unasked for, or never brought to an end.
        ([MADE, FIRST, taken(), Made("cmd_2", "pending")], DONE, "lost"),
        ([FIRST, taken()], DONE, "uninvited"),
        ([MADE, MADE, FIRST, taken()], DONE, "uninvited"),
        ([MADE], kept(created(), status="pending", attempt=0), "unfinished"),
        # An operator's word that did not last.
        ([MADE, FIRST, taken(), Decided(C, "cancelled")], DONE, "lost"),
        # A trail with a hole, a trail that is no way through the table, and one that ends elsewhere.
        ([MADE, FIRST, taken()], kept(created(), succeeded(3, ONE, 1)), "contradictions stale_taken"),
        ([MADE, FIRST, taken()], kept(*DONE.rows[1:]), "contradictions"),
        ([Made(C, "pending_approval"), FIRST, taken()], DONE, "contradictions"),
        ([MADE, FIRST, taken()], DONE._replace(attempt=2), "contradictions"),
        ([MADE, FIRST, taken()], DONE._replace(status="failed"), "contradictions lost_acks"),
        ([MADE, FIRST], ENDED_BY_REFUSAL, "contradictions uninvited"),
    ],
)
def test_what_is_wrong_is_named(records: list[Record], end: Kept, found: str) -> None:
    assert judged(records, end).kinds() == set(found.split())


def keyed(command: str, first: int, last: int) -> Kept:
    rows = (created(first), Row(last, "key:maker", "command.cancelled", "pending", "cancelled"))
    return kept(*rows, status="cancelled", attempt=0, key="k", command=command)


def test_a_key_may_be_used_by_one_after_the_other() -> None:
    made: list[Record] = [Made("a", "pending"), Made("b", "pending")]
    assert judged(made, keyed("b", 3, 4), keyed("a", 1, 2)).violations == []


def test_two_active_commands_with_one_key_are_found() -> None:
    made: list[Record] = [Made("a", "pending"), Made("b", "pending")]
    assert judged(made, keyed("a", 1, 3), keyed("b", 2, 4)).kinds() == {"doubly_active"}


def test_what_waits_for_approval_is_not_active_yet() -> None:
    approved = Row(3, "key:other", "command.approved", "pending_approval", "pending")
    waiting = created(1, "pending_approval")
    ended = Row(4, "key:other", "command.cancelled", "pending", "cancelled")
    first = kept(waiting, approved, ended, status="cancelled", attempt=0, key="k", command="a")
    made: list[Record] = [Made("a", "pending_approval"), Decided("a", "approved"), Made("b", "pending")]
    assert judged(made, first, keyed("b", 1, 2)).violations == []


def test_what_the_verification_of_the_trail_says_counts() -> None:
    assert check([MADE, FIRST, taken()], [DONE], "broken at row 2").kinds() == {"broken_trail"}


def test_the_verdict_prints_its_figures() -> None:
    text = str(judged([MADE, FIRST, SECOND, turned_down(), taken(TWO, 2), unanswered()], STALE))
    assert text.startswith("1 commands made; 2 handed out, up to attempt 2; ACKs: 1 late, 1 refused 401 NONCE_MISMATCH")
    assert "1 taken, 1 unanswered; decisions: none; ends: 1 succeeded; held_twice 0" in text
