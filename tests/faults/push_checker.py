"""Holds what receivers were sent against what was published, when nodes died, and what is kept.

A receiver's requests come one at a time, and what came of one is written down before the next is sent. So an event that
was taken (202) may come again only if a node died after it was sent and before the next request of any kind: else it
had been written down.

Violations, by name:
    lost          an event was never taken by its receiver, or is not acknowledged in the end
    unasked       an event is acknowledged, and its receiver never took it
    again         an event came again after it was written down that it had been taken
    together      two requests were under way at one receiver at the same time
    overtaken     an event came before an older one that was neither taken nor refused by itself
    changed       an event's token was not the same bytes each time
    foreign       an event was sent to another's receiver, or was never published
    doubled       there is an event in an inbox that nobody was told of: a request had its effect twice
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from tests.faults.push_records import Published, Pushed, Records

VIOLATIONS = ("lost", "unasked", "again", "together", "overtaken", "changed", "foreign", "doubled")
TAKEN = 202
REFUSED = 400
# A request that was sent is read by its receiver so much later at most, and its sender may be dead by then.
READ_LATE_SECONDS = 2.0


@dataclass(slots=True)
class Verdict:
    published: int = 0
    pushed: int = 0
    repeated: int = 0
    refused: int = 0
    failed: int = 0
    interrupted: int = 0
    found: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in VIOLATIONS})

    @property
    def violations(self) -> list[str]:
        return [f"{name}: {what}" for name, found in self.found.items() for what in found]

    def __str__(self) -> str:
        return (
            f"{self.published} events, sent {self.pushed} times: {self.refused} refused, {self.failed} failed, "
            f"{self.repeated} sent again after a 202 that a kill came before the writing down of; "
            f"{self.interrupted} kills while a request was under way; {len(self.violations)} violations"
        )


def check(records: Records) -> Verdict:
    return _Check(records).verdict


class _Check:
    def __init__(self, records: Records) -> None:
        self.verdict = Verdict()
        self._records = records
        self._owner = {each.jti: each.receiver for each in records.published}
        self._at: dict[str, list[Pushed]] = defaultdict(list)
        for each in sorted(records.pushed, key=lambda each: each.arrived):
            self._at[each.receiver].append(each)
        self._count()
        self._check_ends()
        self._check_tokens()
        for receiver, pushed in self._at.items():
            self._check_turns(pushed)
            self._check_again(pushed)
            self._check_order([each for each in records.published if each.receiver == receiver], pushed)

    def _count(self) -> None:
        verdict, pushed = self.verdict, self._records.pushed
        verdict.published = len(self._owner)
        verdict.pushed = len(pushed)
        verdict.refused = sum(each.status == REFUSED for each in pushed)
        verdict.failed = sum(each.status not in (TAKEN, REFUSED) for each in pushed)
        verdict.interrupted = sum(
            any(each.arrived <= death.begun <= each.ended for each in pushed) for death in self._records.deaths
        )

    def _note(self, violation: str, what: str) -> None:
        self.verdict.found[violation].append(what)

    def _check_ends(self) -> None:
        taken = {each.jti for each in self._records.pushed if each.status == TAKEN}
        kept = {each.jti: each.status for each in self._records.kept}
        for jti in self._owner:
            if jti not in taken or kept.get(jti) != "acknowledged":
                self._note("lost", f"{jti} is {kept.get(jti, 'gone')}, {'' if jti in taken else 'not '}taken")
            if kept.get(jti) == "acknowledged" and jti not in taken:
                self._note("unasked", jti)
        for jti in kept.keys() - self._owner.keys():
            self._note("doubled", jti)

    def _check_tokens(self) -> None:
        tokens: dict[str, set[str]] = defaultdict(set)
        for each in self._records.pushed:
            tokens[each.jti].add(each.token)
            if self._owner.get(each.jti) != each.receiver:
                self._note("foreign", f"{each.jti} at {each.receiver}")
        for jti, seen in tokens.items():
            if len(seen) > 1:
                self._note("changed", jti)

    def _check_turns(self, pushed: list[Pushed]) -> None:
        for before, after in itertools.pairwise(pushed):
            if after.arrived < before.ended:
                self._note("together", f"{before.jti} and {after.jti} at {before.receiver}")

    def _check_again(self, pushed: list[Pushed]) -> None:
        over: set[str] = set()
        for number, each in enumerate(pushed):
            if each.jti in over:
                self._note("again", each.jti)
            if each.status != TAKEN or number + 1 == len(pushed):
                continue
            following = pushed[number + 1]
            if not self._has_died_between(each.arrived, following.arrived):
                over.add(each.jti)
            self.verdict.repeated += any(later.jti == each.jti for later in pushed[number + 1 :])

    def _has_died_between(self, since: float, until: float) -> bool:
        sent = since - READ_LATE_SECONDS
        return any(death.over >= sent and death.begun <= until for death in self._records.deaths)

    def _check_order(self, published: list[Published], pushed: list[Pushed]) -> None:
        waiting = [each.jti for each in published]
        for each in pushed:
            if each.jti in waiting and waiting[0] != each.jti:
                self._note("overtaken", f"{waiting[0]} by {each.jti}")
            if each.jti in waiting and each.status in (TAKEN, REFUSED):
                waiting.remove(each.jti)
