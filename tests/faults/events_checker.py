"""Holds what clients were handed and said against what was published and is kept.

Violations, by name:
    returned      an event was handed out in or after the answer to the poll that acknowledged it or called it wrong
    lost          an event that was published is gone, or was neither acknowledged nor ever handed out by the end
    unsaid        an acknowledgement or an error that was answered is not what is kept
    unasked       an event is acknowledged or in error, and nobody said so
    changed       an event's token was not the same bytes each time
    foreign       an event was handed to another client than its own
    overtaken     within one answer, events are not in the order of their publishing
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.events_records import Got, Kept, Published, Record, Said

VIOLATIONS = ("returned", "lost", "unsaid", "unasked", "changed", "foreign", "overtaken")


@dataclass(slots=True)
class Verdict:
    published: int = 0
    handed: int = 0
    acknowledged: int = 0
    errored: int = 0
    redelivered: int = 0
    unanswered: int = 0
    found: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in VIOLATIONS})

    @property
    def violations(self) -> list[str]:
        return [f"{name}: {what}" for name, found in self.found.items() for what in found]

    def __str__(self) -> str:
        return (
            f"{self.published} events, handed out {self.handed} times, {self.redelivered} of them again; "
            f"{self.acknowledged} acknowledged, {self.errored} in error; {self.unanswered} sayings without an answer; "
            f"{len(self.violations)} violations"
        )


def check(records: Iterable[Record], kept: Iterable[Kept]) -> Verdict:
    return _Check(list(records), list(kept)).verdict


class _Check:
    def __init__(self, records: list[Record], kept: list[Kept]) -> None:
        self.verdict = Verdict()
        self._order = {record.jti: n for n, record in enumerate(records) if isinstance(record, Published)}
        self._owner = {record.jti: record.client for record in records if isinstance(record, Published)}
        self._got: dict[str, list[Got]] = defaultdict(list)
        self._said: dict[str, list[Said]] = defaultdict(list)
        self._kept = {each.jti: each for each in kept}
        for record in records:
            if isinstance(record, Got):
                self._got[record.jti].append(record)
            elif isinstance(record, Said):
                self._said[record.jti].append(record)
        self._count(kept)
        for jti in self._owner:
            self._check_event(jti)
        self._check_order()

    def _count(self, kept: list[Kept]) -> None:
        verdict = self.verdict
        verdict.published = len(self._owner)
        verdict.handed = sum(map(len, self._got.values()))
        verdict.redelivered = sum(len(got) - 1 for got in self._got.values())
        verdict.acknowledged = sum(each.status == "acknowledged" for each in kept)
        verdict.errored = sum(each.status == "errored" for each in kept)
        verdict.unanswered = sum(not said.is_answered for all_said in self._said.values() for said in all_said)

    def _note(self, violation: str, what: str) -> None:
        self.verdict.found[violation].append(what)

    def _check_event(self, jti: str) -> None:
        got, said, kept = self._got[jti], self._said[jti], self._kept.get(jti)
        if any(each.client != self._owner[jti] for each in got):
            self._note("foreign", jti)
        if len({each.token for each in got} | ({kept.token} if kept else set())) > 1:
            self._note("changed", jti)
        if kept is None or (kept.status not in ("acknowledged", "errored") and not got):
            self._note("lost", jti)
        answered = [each.n for each in said if each.is_answered]
        if answered and any(each.n >= min(answered) for each in got):
            self._note("returned", jti)
        if kept is not None:
            self._check_standing(kept, said)

    def _check_standing(self, kept: Kept, said: list[Said]) -> None:
        last = [each for each in said if each.is_answered][-1:]
        wanted = {"errored" if each.is_error else "acknowledged" for each in last}
        possible = {"errored" if each.is_error else "acknowledged" for each in said}
        if wanted and kept.status not in wanted | {"acknowledged"}:
            self._note("unsaid", f"{kept.jti} is {kept.status}")
        if kept.status in ("acknowledged", "errored") and kept.status not in possible:
            self._note("unasked", f"{kept.jti} is {kept.status}")

    def _check_order(self) -> None:
        answers: dict[tuple[int, int], list[Got]] = defaultdict(list)
        for got in (each for all_got in self._got.values() for each in all_got):
            answers[got.client, got.n].append(got)
        for answer in answers.values():
            jtis = [got.jti for got in sorted(answer, key=lambda got: got.position)]
            known = [self._order[jti] for jti in jtis if jti in self._order]
            if known != sorted(known):
                self._note("overtaken", ", ".join(jtis))
