"""The checker of commands on hand-written records: it accepts correct records and names each violation."""

import pytest

from tests.faults.commands.checker import Verdict, check
from tests.faults.commands.records import AckSent, AuditRow, Created, Decision, Dispatched, FinalCommand, Record

C = "cmd_1"
ONE, TWO = 1, 2
LEASE_LOST = AuditRow(3, "restante", "command.lease_lost", "dispatched", "pending", 1)


def collector(device: int) -> str:
    return f"collector:{device}"


def created(n: int = 1, status: str = "pending") -> AuditRow:
    return AuditRow(n, "key:creator", "command.created", None, status)


def dispatched(n: int, device: int, attempt: int) -> AuditRow:
    return AuditRow(n, collector(device), "command.dispatched", "pending", "dispatched", attempt)


def succeeded(n: int, device: int, attempt: int) -> AuditRow:
    return AuditRow(n, collector(device), "command.succeeded", "dispatched", "succeeded", attempt)


def refused(n: int, device: int, state: str = "dispatched", error: str = "NONCE_MISMATCH") -> AuditRow:
    return AuditRow(n, collector(device), "ack.refused", state, state, 2, error)


def accepted(device: int = ONE, attempt: int = 1, *, late: bool = False, replayed: bool = False) -> AckSent:
    return AckSent(device, C, attempt, "succeeded", late, 200, replayed, "succeeded")


def refused_ack(device: int = ONE, attempt: int = 1, *, late: bool = True) -> AckSent:
    return AckSent(device, C, attempt, "succeeded", late, 401, error="NONCE_MISMATCH")


def no_response(device: int = ONE, attempt: int = 1) -> AckSent:
    return AckSent(device, C, attempt, "succeeded", False, None)


def final(
    *rows: AuditRow, status: str = "succeeded", attempt: int = 1, key: str | None = None, command: str = C
) -> FinalCommand:
    return FinalCommand(command, status, attempt, key, rows)


CREATED = Created(C, "pending")
FIRST, SECOND = Dispatched(ONE, C, 1), Dispatched(TWO, C, 2)
DONE = final(created(), dispatched(2, ONE, 1), succeeded(3, ONE, 1))
TWICE = (created(), dispatched(2, ONE, 1), LEASE_LOST, dispatched(4, TWO, 2))
STALE = final(*TWICE, refused(5, ONE), succeeded(6, TWO, 2), attempt=2)
UNAUDITED = final(*TWICE, succeeded(5, TWO, 2), attempt=2)
LEASED = final(created(), dispatched(2, ONE, 1), status="dispatched")
DISPATCHED_AFTER_END = final(*DONE.rows, dispatched(4, TWO, 2), attempt=2, status="dispatched")
ENDED_BY_REFUSAL = final(*LEASED.rows, refused(3, ONE)._replace(to_state="failed"), status="failed")
OTHER_REFUSAL = refused_ack()._replace(error="OTHER")


def verdict_on(records: list[Record], *commands: FinalCommand) -> Verdict:
    return check(records, commands)


@pytest.mark.parametrize(
    ("records", "command"),
    [
        ([CREATED, FIRST, accepted()], DONE),
        ([CREATED, FIRST, accepted(), accepted(replayed=True), no_response()], DONE),
        ([CREATED, FIRST, no_response(), accepted(replayed=True)], DONE),
        # The response to the poll, or to the ACK, was lost when the server was killed.
        ([CREATED, no_response()], DONE),
        ([CREATED, FIRST, SECOND, refused_ack(), accepted(TWO, 2)], STALE),
        ([CREATED, FIRST, SECOND, no_response(), accepted(TWO, 2)], STALE),
    ],
)
def test_correct_records_are_accepted(records: list[Record], command: FinalCommand) -> None:
    assert verdict_on(records, command).violations == []


@pytest.mark.parametrize(
    ("records", "command", "found"),
    [
        # Two holders of one attempt, one holder twice, an attempt that decreases.
        ([CREATED, FIRST, Dispatched(TWO, C, 1), accepted()], DONE, "held_twice contradictions"),
        ([CREATED, FIRST, FIRST, accepted()], DONE, "held_twice"),
        ([CREATED, Dispatched(ONE, C, 2), FIRST, accepted()], DONE, "held_twice contradictions dispatched_after_end"),
        # An accepted ACK is missing, or was applied twice.
        ([CREATED, FIRST, accepted()], LEASED, "lost_acks unfinished"),
        ([CREATED, FIRST, SECOND, accepted(), accepted(TWO, 2)], UNAUDITED, "lost_acks dispatched_after_end"),
        ([CREATED, FIRST, accepted(), accepted()], DONE, "applied_twice"),
        # Accepted too late, by the collector's record or by the audit trail.
        ([CREATED, FIRST, accepted(late=True)], DONE, "stale_accepted"),
        ([CREATED, FIRST, accepted(late=True, replayed=True)], DONE, "stale_accepted"),
        (
            [CREATED, FIRST, SECOND, accepted()],
            final(*TWICE, succeeded(5, ONE, 1), attempt=2),
            "stale_accepted dispatched_after_end",
        ),
        (
            [CREATED, FIRST, SECOND, no_response(ONE, 2)],
            final(*TWICE, succeeded(5, ONE, 2), attempt=2),
            "stale_accepted",
        ),
        # Refused and not audited, or audited and never sent.
        ([CREATED, FIRST, SECOND, refused_ack(), accepted(TWO, 2)], UNAUDITED, "unaudited"),
        ([CREATED, FIRST, SECOND, refused_ack(), refused_ack(), accepted(TWO, 2)], STALE, "unaudited"),
        ([CREATED, FIRST, SECOND, OTHER_REFUSAL, accepted(TWO, 2)], STALE, "unaudited unsolicited"),
        ([CREATED, FIRST, SECOND, accepted(TWO, 2)], STALE, "unsolicited"),
        # Refused but applied; applied but never sent.
        ([CREATED, FIRST, refused_ack()], final(*DONE.rows, refused(4, ONE, "succeeded")), "unsolicited"),
        ([CREATED, FIRST], DONE, "unsolicited"),
        # Dispatched after its end.
        (
            [CREATED, FIRST, accepted()],
            DISPATCHED_AFTER_END,
            "dispatched_after_end contradictions lost_acks unfinished",
        ),
        # Lost, unsolicited, or never finished.
        ([CREATED, FIRST, accepted(), Created("cmd_2", "pending")], DONE, "lost"),
        ([FIRST, accepted()], DONE, "unsolicited"),
        ([CREATED, CREATED, FIRST, accepted()], DONE, "unsolicited"),
        ([CREATED], final(created(), status="pending", attempt=0), "unfinished"),
        # An operator's decision that was lost.
        ([CREATED, FIRST, accepted(), Decision(C, "cancelled")], DONE, "lost"),
        # Audit rows with a gap, rows that are no path through the table, and rows that end in another state.
        ([CREATED, FIRST, accepted()], final(created(), succeeded(3, ONE, 1)), "contradictions stale_accepted"),
        ([CREATED, FIRST, accepted()], final(*DONE.rows[1:]), "contradictions"),
        ([Created(C, "pending_approval"), FIRST, accepted()], DONE, "contradictions"),
        ([CREATED, FIRST, accepted()], DONE._replace(attempt=2), "contradictions"),
        ([CREATED, FIRST, accepted()], DONE._replace(status="failed"), "contradictions lost_acks"),
        ([CREATED, FIRST], ENDED_BY_REFUSAL, "contradictions unsolicited"),
    ],
)
def test_violation_is_named(records: list[Record], command: FinalCommand, found: str) -> None:
    assert verdict_on(records, command).kinds() == set(found.split())


def keyed(command: str, first: int, last: int) -> FinalCommand:
    rows = (created(first), AuditRow(last, "key:creator", "command.cancelled", "pending", "cancelled"))
    return final(*rows, status="cancelled", attempt=0, key="k", command=command)


def test_dedupe_key_may_be_used_by_successive_commands() -> None:
    created_records: list[Record] = [Created("a", "pending"), Created("b", "pending")]
    assert verdict_on(created_records, keyed("b", 3, 4), keyed("a", 1, 2)).violations == []


def test_two_active_commands_with_one_dedupe_key_are_found() -> None:
    created_records: list[Record] = [Created("a", "pending"), Created("b", "pending")]
    assert verdict_on(created_records, keyed("a", 1, 3), keyed("b", 2, 4)).kinds() == {"duplicate_active"}


def test_command_that_waits_for_approval_is_not_active() -> None:
    approved = AuditRow(3, "key:other", "command.approved", "pending_approval", "pending")
    waiting = created(1, "pending_approval")
    ended = AuditRow(4, "key:other", "command.cancelled", "pending", "cancelled")
    first = final(waiting, approved, ended, status="cancelled", attempt=0, key="k", command="a")
    created_records: list[Record] = [
        Created("a", "pending_approval"),
        Decision("a", "approved"),
        Created("b", "pending"),
    ]
    assert verdict_on(created_records, first, keyed("b", 1, 2)).violations == []


def test_audit_verification_error_is_a_violation() -> None:
    assert check([CREATED, FIRST, accepted()], [DONE], "broken at row 2").kinds() == {"broken_audit"}


def test_verdict_prints_its_figures() -> None:
    text = str(verdict_on([CREATED, FIRST, SECOND, refused_ack(), accepted(TWO, 2), no_response()], STALE))
    assert text.startswith("1 commands created; 2 dispatched, up to attempt 2; ACKs: 1 accepted, 1 late, 1 no response")
    assert "1 refused 401 NONCE_MISMATCH; decisions: none; ends: 1 succeeded; held_twice 0" in text
