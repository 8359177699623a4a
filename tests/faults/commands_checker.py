"""The judge of the command fault test: records in, verdict out. Knows nothing of servers, sockets or time.

    records   what operators and collectors saw: commands made and decided on, handed out and acknowledged
    kept      what the server says at the end: each command, with its rows of the audit trail
    complaint what the verification of the whole trail has to say, if anything

Two views of the same thing, which must agree: what was answered must be in the trail, once and under the attempt it
belongs to, and what is in the trail must have been asked for. The trail itself must be a way through the table of
states, one holder after another.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from restante.core.command_states import TERMINAL, TRANSITIONS, Event, State
from tests.faults.commands_records import Acked, Decided, Handed, Kept, Made, Record, Row

CREATED = "command.created"
DISPATCHED = f"command.{Event.dispatch}"
REFUSED = "ack.refused"
# How an ACK that was taken is recorded.
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
    "doubled",
    "stale_taken",
    "unrecorded",
    "handed_after_end",
    "lost",
    "unfinished",
    "doubly_active",
    "uninvited",
    "contradictions",
    "broken_trail",
)


@dataclass(slots=True)
class Verdict:
    made: int = 0
    handed: int = 0
    highest_attempt: int = 0
    acks: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    found: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def violations(self) -> list[str]:
        return [f"{kind}: {text}" for kind, texts in self.found.items() for text in texts]

    def kinds(self) -> set[str]:
        return {kind for kind, texts in self.found.items() if texts}

    def note(self, kind: str, text: str) -> None:
        self.found[kind].append(text)

    def __str__(self) -> str:
        figures = [
            f"{self.made} commands made",
            f"{self.handed} handed out, up to attempt {self.highest_attempt}",
            f"ACKs: {_listed(self.acks)}",
            f"decisions: {_listed(self.decisions)}",
            f"ends: {_listed(self.ends)}",
            ", ".join(f"{kind} {len(texts)}" for kind, texts in self.found.items()),
        ]
        return "; ".join(figures)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or "none"


@dataclass(slots=True)
class Seen:
    """What was seen of one command."""

    made: list[Made] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    acks: list[Acked] = field(default_factory=list)

    def add(self, record: Record) -> None:
        match record:
            case Made():
                self.made.append(record)
            case Decided():
                self.decided.append(record)
            case Handed():
                self.handed.append(record)
            case Acked():
                self.acks.append(record)


def check(records: Iterable[Record], kept: Iterable[Kept], complaint: str | None = None) -> Verdict:
    verdict = Verdict()
    seen: dict[str, Seen] = defaultdict(Seen)
    for record in records:
        seen[record.command].add(record)
        _count(verdict, record)
    commands = {each.command: each for each in kept}
    for command in sorted(seen.keys() - commands.keys()):
        verdict.note("lost", f"{command} is not there")
    for each in commands.values():
        verdict.ends[each.status] += 1
        of_it = seen[each.command]
        _check_making(verdict, each, of_it.made)
        _check_trail(verdict, each)
        _check_hands(verdict, each, of_it)
        _check_acks(verdict, each, of_it.acks)
        _check_refusals(verdict, each, of_it.acks)
        _check_decisions(verdict, each, of_it.decided)
    _check_dedupe(verdict, commands.values())
    if complaint is not None:
        verdict.note("broken_trail", complaint)
    return verdict


def _count(verdict: Verdict, record: Record) -> None:
    match record:
        case Made():
            verdict.made += 1
        case Decided():
            verdict.decisions[record.event] += 1
        case Handed():
            verdict.handed += 1
            verdict.highest_attempt = max(verdict.highest_attempt, record.attempt)
        case Acked():
            verdict.acks[_fate(record)] += 1
            verdict.acks["late"] += record.is_late


def _fate(ack: Acked) -> str:
    if ack.code is None:
        return "unanswered"
    if ack.is_taken:
        return "replayed" if ack.is_replayed else "taken"
    return f"refused {ack.code} {ack.error}"


def _check_making(verdict: Verdict, kept: Kept, made: list[Made]) -> None:
    if len(made) != 1:
        verdict.note("uninvited", f"{kept.command} was made {len(made)} times by those who make commands")
    began = [(row.event, row.to_state) for row in kept.rows[:1]]
    if made and began != [(CREATED, made[0].status)]:
        verdict.note("contradictions", f"{kept.command} was made {made[0].status} and begins with {began}")
    if State(kept.status) not in TERMINAL:
        verdict.note("unfinished", f"{kept.command} is {kept.status}")


def _check_trail(verdict: Verdict, kept: Kept) -> None:
    """The rows are a way through the table, each holder with an attempt of its own, and end where the command is."""
    state: str | None = None
    attempt, holder = 0, ""
    for row in kept.rows:
        if row.event == DISPATCHED:
            if state in TERMINAL:
                verdict.note("handed_after_end", f"{kept.command}: row {row.n}")
            if row.attempt != attempt + 1:
                verdict.note("contradictions", f"{kept.command}: attempt {row.attempt} after {attempt}")
            attempt, holder = attempt + 1, row.actor
        elif row.event in STATUS_OF_EVENT and (row.actor, row.attempt) != (holder, attempt):
            verdict.note("stale_taken", f"{kept.command}: {row.actor}, attempt {row.attempt}; {holder} has {attempt}")
        if row.from_state != state or not _is_step(row):
            verdict.note("contradictions", f"{kept.command} is {state}: {row}")
        state = row.to_state
    if (state, attempt) != (kept.status, kept.attempt):
        verdict.note("contradictions", f"{kept.command} is {kept.status}, attempt {kept.attempt}; last row: {state}")


def _is_step(row: Row) -> bool:
    if row.event == REFUSED:
        return row.from_state == row.to_state
    if row.from_state is None:
        return row.event == CREATED
    event = row.event.removeprefix("command.")
    return event in set(Event) and TRANSITIONS.get((State(row.from_state), Event(event))) == row.to_state


def _check_hands(verdict: Verdict, kept: Kept, seen: Seen) -> None:
    dispatched = {(row.actor, row.attempt) for row in kept.rows if row.event == DISPATCHED}
    ended_at = min((ack.attempt for ack in seen.acks if ack.is_taken and ack.state in TERMINAL), default=None)
    by_attempt: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    for hand in seen.handed:
        by_attempt[hand.attempt].append(hand.device)
        if (f"collector:{hand.device}", hand.attempt) not in dispatched:
            verdict.note("contradictions", f"{kept.command}: {hand} is not in the trail")
        if ended_at is not None and hand.attempt > ended_at:
            verdict.note("handed_after_end", f"{kept.command} ended under attempt {ended_at}: {hand}")
        if hand.attempt <= last.get(hand.device, 0):
            verdict.note("held_twice", f"{kept.command}: {hand} after attempt {last[hand.device]}")
        last[hand.device] = hand.attempt
    for attempt, devices in by_attempt.items():
        if len(devices) > 1:
            verdict.note("held_twice", f"{kept.command}, attempt {attempt}: handed to {devices}")


def _check_acks(verdict: Verdict, kept: Kept, acks: list[Acked]) -> None:
    sent: dict[tuple[int, int, str], list[Acked]] = defaultdict(list)
    for ack in acks:
        sent[ack.device, ack.attempt, ack.status].append(ack)
    recorded = Counter(
        (row.actor, row.attempt, STATUS_OF_EVENT[row.event]) for row in kept.rows if row.event in STATUS_OF_EVENT
    )
    for (device, attempt, status), group in sent.items():
        rows = recorded.pop((f"collector:{device}", attempt, status), 0)
        what = f"{kept.command}: {status} by {device}, attempt {attempt}"
        _check_group(verdict, kept, what, group, rows)
    for row in recorded:
        verdict.note("uninvited", f"{kept.command}: {row} is in the trail and was never sent")


def _check_group(verdict: Verdict, kept: Kept, what: str, group: list[Acked], rows: int) -> None:
    """The same ACK, sent once or many times."""
    taken = [ack for ack in group if ack.is_taken]
    if taken and not rows:
        verdict.note("lost_acks", f"{what} was taken and is not in the trail")
    if rows > 1 or sum(not ack.is_replayed for ack in taken) > 1:
        verdict.note("doubled", f"{what} was taken more than once")
    if rows and not taken and not any(ack.code is None for ack in group):
        verdict.note("uninvited", f"{what} was refused and is in the trail as taken")
    if any(ack.is_late for ack in taken):
        verdict.note("stale_taken", f"{what} came after its lease and was taken")
    for state in {ack.state for ack in taken if ack.state in TERMINAL} - {kept.status}:
        verdict.note("lost_acks", f"{what} was answered {state}, the command is {kept.status}")


def _check_refusals(verdict: Verdict, kept: Kept, acks: list[Acked]) -> None:
    refused = Counter(
        (f"collector:{ack.device}", ack.error) for ack in acks if ack.code is not None and not ack.is_taken
    )
    recorded = Counter((row.actor, row.error) for row in kept.rows if row.event == REFUSED)
    for (actor, error), count in (refused - recorded).items():
        verdict.note("unrecorded", f"{kept.command}: {count} × {error} to {actor}")
    if (recorded - refused).total() > sum(ack.code is None for ack in acks):
        verdict.note("uninvited", f"{kept.command}: refusals of ACKs that were never sent")


def _check_decisions(verdict: Verdict, kept: Kept, decided: list[Decided]) -> None:
    for decision in decided:
        times = sum(row.event == f"command.{decision.event}" for row in kept.rows)
        if times != 1:
            verdict.note("lost", f"{kept.command}: {decision.event} is in the trail {times} times")


def _check_dedupe(verdict: Verdict, kept: Iterable[Kept]) -> None:
    """Of the commands with one key, all of one site and so of one chain, one is active at a time."""
    spans: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for each in kept:
        begins = [row.n for row in each.rows if row.to_state == State.pending]
        ends = [row.n for row in each.rows if row.to_state in TERMINAL]
        if each.dedupe_key is not None and begins:
            spans[each.dedupe_key].append((begins[0], ends[0] if ends else float("inf"), each.command))
    for key, taken in spans.items():
        for (_, end, first), (begin, _, second) in pairwise(sorted(taken)):
            if begin < end:
                verdict.note("doubly_active", f"{key}: {first} and {second}")
