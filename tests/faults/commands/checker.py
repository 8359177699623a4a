"""The checker of the commands fault test: compares the observations of clients with the server's final state.

    records      observations of operators and collectors: commands created, decided on, dispatched, acknowledged
    final        each command at the end by the server's records, with its audit rows
    audit_error  the error of the audit verification, if any

It does not know about servers, sockets or time. Both views must agree: every response must be in the audit trail, once
and under its attempt, and everything in the audit trail must have been requested. The audit rows of a command must be a
path through the table of states, with one holder after another.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from restante.core.commands.command_states import TERMINAL, TRANSITIONS, Event, State
from tests.faults.campaigns import Violations
from tests.faults.commands.records import AckSent, AuditRow, Created, Decision, Dispatched, FinalCommand, Record

CREATED = "command.created"
DISPATCHED = f"command.{Event.dispatch}"
REFUSED = "ack.refused"
# The audit events of an accepted ACK.
ACK_EVENTS = {
    "succeeded": {f"command.{Event.succeed}"},
    "failed": {f"command.{Event.retry}", f"command.{Event.fail}"},
    "deferred": {f"command.{Event.defer}"},
    "rejected": {f"command.{Event.reject}"},
    "running": {f"command.{Event.run}"},
}
STATUS_OF_EVENT = {event: status for status, events in ACK_EVENTS.items() for event in events}
KINDS = (
    "held_twice",
    "lost_acks",
    "applied_twice",
    "stale_accepted",
    "unaudited",
    "dispatched_after_end",
    "lost",
    "unfinished",
    "duplicate_active",
    "unsolicited",
    "contradictions",
    "broken_audit",
)


@dataclass(slots=True)
class Verdict(Violations):
    created: int = 0
    dispatched: int = 0
    highest_attempt: int = 0
    acks: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        figures = [
            f"{self.created} commands created",
            f"{self.dispatched} dispatched, up to attempt {self.highest_attempt}",
            f"ACKs: {_listed(self.acks)}",
            f"decisions: {_listed(self.decisions)}",
            f"ends: {_listed(self.ends)}",
            ", ".join(f"{kind} {len(self.found[kind])}" for kind in KINDS),
        ]
        return "; ".join(figures)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or "none"


@dataclass(slots=True)
class CommandRecords:
    """The records of one command."""

    created: list[Created] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    dispatched: list[Dispatched] = field(default_factory=list)
    acks: list[AckSent] = field(default_factory=list)

    def add(self, record: Record) -> None:
        match record:
            case Created():
                self.created.append(record)
            case Decision():
                self.decisions.append(record)
            case Dispatched():
                self.dispatched.append(record)
            case AckSent():
                self.acks.append(record)


def check(records: Iterable[Record], final: Iterable[FinalCommand], audit_error: str | None = None) -> Verdict:
    verdict = Verdict()
    by_command: dict[str, CommandRecords] = defaultdict(CommandRecords)
    for record in records:
        by_command[record.command].add(record)
        _count(verdict, record)
    commands = {each.command: each for each in final}
    for command in sorted(by_command.keys() - commands.keys()):
        verdict.add("lost", f"{command} is not there")
    for each in commands.values():
        verdict.ends[each.status] += 1
        observed = by_command[each.command]
        _check_creation(verdict, each, observed.created)
        _check_audit(verdict, each)
        _check_dispatches(verdict, each, observed)
        _check_acks(verdict, each, observed.acks)
        _check_refusals(verdict, each, observed.acks)
        _check_decisions(verdict, each, observed.decisions)
    _check_dedupe(verdict, commands.values())
    if audit_error is not None:
        verdict.add("broken_audit", audit_error)
    return verdict


def _count(verdict: Verdict, record: Record) -> None:
    match record:
        case Created():
            verdict.created += 1
        case Decision():
            verdict.decisions[record.event] += 1
        case Dispatched():
            verdict.dispatched += 1
            verdict.highest_attempt = max(verdict.highest_attempt, record.attempt)
        case AckSent():
            verdict.acks[_outcome(record)] += 1
            verdict.acks["late"] += record.is_late


def _outcome(ack: AckSent) -> str:
    if ack.code is None:
        return "no response"
    if ack.is_accepted:
        return "replayed" if ack.is_replayed else "accepted"
    return f"refused {ack.code} {ack.error}"


def _check_creation(verdict: Verdict, final: FinalCommand, created: list[Created]) -> None:
    if len(created) != 1:
        verdict.add("unsolicited", f"{final.command} was created {len(created)} times by the operators")
    first = [(row.event, row.to_state) for row in final.rows[:1]]
    if created and first != [(CREATED, created[0].status)]:
        verdict.add("contradictions", f"{final.command} was created {created[0].status}, its first row is {first}")
    if State(final.status) not in TERMINAL:
        verdict.add("unfinished", f"{final.command} is {final.status}")


def _check_audit(verdict: Verdict, final: FinalCommand) -> None:
    """The rows are a path through the table, each holder has its own attempt, and the last row matches the command."""
    state: str | None = None
    attempt, holder = 0, ""
    for row in final.rows:
        if row.event == DISPATCHED:
            if state in TERMINAL:
                verdict.add("dispatched_after_end", f"{final.command}: row {row.n}")
            if row.attempt != attempt + 1:
                verdict.add("contradictions", f"{final.command}: attempt {row.attempt} after {attempt}")
            attempt, holder = attempt + 1, row.actor
        elif row.event in STATUS_OF_EVENT and (row.actor, row.attempt) != (holder, attempt):
            verdict.add(
                "stale_accepted", f"{final.command}: {row.actor}, attempt {row.attempt}; {holder} has {attempt}"
            )
        if row.from_state != state or not _is_step(row):
            verdict.add("contradictions", f"{final.command} is {state}: {row}")
        state = row.to_state
    if (state, attempt) != (final.status, final.attempt):
        verdict.add("contradictions", f"{final.command} is {final.status}, attempt {final.attempt}; last row: {state}")


def _is_step(row: AuditRow) -> bool:
    if row.event == REFUSED:
        return row.from_state == row.to_state
    if row.from_state is None:
        return row.event == CREATED
    event = row.event.removeprefix("command.")
    return event in set(Event) and TRANSITIONS.get((State(row.from_state), Event(event))) == row.to_state


def _check_dispatches(verdict: Verdict, final: FinalCommand, observed: CommandRecords) -> None:
    dispatched = {(row.actor, row.attempt) for row in final.rows if row.event == DISPATCHED}
    ended_at = min((ack.attempt for ack in observed.acks if ack.is_accepted and ack.state in TERMINAL), default=None)
    by_attempt: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    for dispatch in observed.dispatched:
        by_attempt[dispatch.attempt].append(dispatch.device)
        if (f"collector:{dispatch.device}", dispatch.attempt) not in dispatched:
            verdict.add("contradictions", f"{final.command}: {dispatch} is not in the audit trail")
        if ended_at is not None and dispatch.attempt > ended_at:
            verdict.add("dispatched_after_end", f"{final.command} ended under attempt {ended_at}: {dispatch}")
        if dispatch.attempt <= last.get(dispatch.device, 0):
            verdict.add("held_twice", f"{final.command}: {dispatch} after attempt {last[dispatch.device]}")
        last[dispatch.device] = dispatch.attempt
    for attempt, devices in by_attempt.items():
        if len(devices) > 1:
            verdict.add("held_twice", f"{final.command}, attempt {attempt}: dispatched to {devices}")


def _check_acks(verdict: Verdict, final: FinalCommand, acks: list[AckSent]) -> None:
    sent: dict[tuple[int, int, str], list[AckSent]] = defaultdict(list)
    for ack in acks:
        sent[ack.device, ack.attempt, ack.status].append(ack)
    recorded = Counter(
        (row.actor, row.attempt, STATUS_OF_EVENT[row.event]) for row in final.rows if row.event in STATUS_OF_EVENT
    )
    for (device, attempt, status), group in sent.items():
        rows = recorded.pop((f"collector:{device}", attempt, status), 0)
        description = f"{final.command}: {status} by {device}, attempt {attempt}"
        _check_group(verdict, final, description, group, rows)
    for row in recorded:
        verdict.add("unsolicited", f"{final.command}: {row} is in the audit trail and was never sent")


def _check_group(verdict: Verdict, final: FinalCommand, description: str, group: list[AckSent], rows: int) -> None:
    """Check the copies of one ACK."""
    accepted = [ack for ack in group if ack.is_accepted]
    if accepted and not rows:
        verdict.add("lost_acks", f"{description} was accepted and is not in the audit trail")
    if rows > 1 or sum(not ack.is_replayed for ack in accepted) > 1:
        verdict.add("applied_twice", f"{description} was applied more than once")
    if rows and not accepted and not any(ack.code is None for ack in group):
        verdict.add("unsolicited", f"{description} was refused and is in the audit trail as accepted")
    if any(ack.is_late for ack in accepted):
        verdict.add("stale_accepted", f"{description} came after its lease and was accepted")
    for state in {ack.state for ack in accepted if ack.state in TERMINAL} - {final.status}:
        verdict.add("lost_acks", f"{description} got the response {state}, the command is {final.status}")


def _check_refusals(verdict: Verdict, final: FinalCommand, acks: list[AckSent]) -> None:
    refused = Counter(
        (f"collector:{ack.device}", ack.error) for ack in acks if ack.code is not None and not ack.is_accepted
    )
    recorded = Counter((row.actor, row.error) for row in final.rows if row.event == REFUSED)
    # Recorded at the 1st, 2nd, 4th, 8th … time.
    due = Counter({refusal: count.bit_length() for refusal, count in refused.items()})
    for (actor, error), count in (due - recorded).items():
        verdict.add("unaudited", f"{final.command}: {count} × {error} to {actor}")
    if (recorded - refused).total() > sum(ack.code is None for ack in acks):
        verdict.add("unsolicited", f"{final.command}: refusals of ACKs that were never sent")


def _check_decisions(verdict: Verdict, final: FinalCommand, decisions: list[Decision]) -> None:
    for decision in decisions:
        times = sum(row.event == f"command.{decision.event}" for row in final.rows)
        if times != 1:
            verdict.add("lost", f"{final.command}: {decision.event} is in the audit trail {times} times")


def _check_dedupe(verdict: Verdict, final: Iterable[FinalCommand]) -> None:
    """Only one command with a dedupe key is active at a time. All of them belong to one site, so to one audit chain."""
    spans: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for each in final:
        begins = [row.n for row in each.rows if row.to_state == State.pending]
        ends = [row.n for row in each.rows if row.to_state in TERMINAL]
        if each.dedupe_key is not None and begins:
            spans[each.dedupe_key].append((begins[0], ends[0] if ends else float("inf"), each.command))
    for key, key_spans in spans.items():
        for (_, end, first), (begin, _, second) in pairwise(sorted(key_spans)):
            if begin < end:
                verdict.add("duplicate_active", f"{key}: {first} and {second}")
