"""The checker of the push fault test: compares the requests at receivers with the published events and the final state.

A receiver gets one request at a time, and the server records its outcome before it sends the next. So an accepted event
(202) may be sent again only if a node was killed after sending it and before the next request to that receiver.

Violations, by kind:
    lost             an event was never accepted by its receiver, or is not acknowledged at the end
    unsolicited      an event is acknowledged, but its receiver never accepted it
    repeated         an event was sent again after its acceptance had been recorded
    concurrent       two requests were open at one receiver at the same time
    out_of_order     an event was sent before an older one that was neither accepted nor refused
    token_changed    the token of an event was not the same bytes each time
    wrong_receiver   an event was sent to another receiver, or was never published
    published_twice  an inbox has an event that no response reported: a request had its effect twice
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass

from tests.faults.campaigns import Violations
from tests.faults.push.records import Published, PushRequest, Records

VIOLATIONS = (
    *("lost", "unsolicited", "repeated", "concurrent", "out_of_order"),
    *("token_changed", "wrong_receiver", "published_twice"),
)
ACCEPTED = 202
REFUSED = 400
# A receiver reads a request at most so much later than it was sent; its sender may have been killed meanwhile.
READ_DELAY_SECONDS_MAX = 2.0


@dataclass(slots=True)
class Verdict(Violations):
    published: int = 0
    sent: int = 0
    repeated: int = 0
    refused: int = 0
    failed: int = 0
    interrupted: int = 0

    def __str__(self) -> str:
        return (
            f"{self.published} events, sent {self.sent} times: {self.refused} refused, {self.failed} failed, "
            f"{self.repeated} sent again because a kill prevented the recording of a 202; "
            f"{self.interrupted} kills while a request was open; {len(self.violations)} violations"
        )


def check(records: Records) -> Verdict:
    return _Check(records).verdict


class _Check:
    def __init__(self, records: Records) -> None:
        self.verdict = Verdict()
        self._records = records
        self._owner = {each.jti: each.receiver for each in records.published}
        self._requests_at: dict[str, list[PushRequest]] = defaultdict(list)
        for each in sorted(records.requests, key=lambda each: each.arrived):
            self._requests_at[each.receiver].append(each)
        self._count()
        self._check_ends()
        self._check_tokens()
        for receiver, requests in self._requests_at.items():
            self._check_concurrent(requests)
            self._check_repeated(requests)
            self._check_order([each for each in records.published if each.receiver == receiver], requests)

    def _count(self) -> None:
        verdict, requests = self.verdict, self._records.requests
        verdict.published = len(self._owner)
        verdict.sent = len(requests)
        verdict.refused = sum(each.status == REFUSED for each in requests)
        verdict.failed = sum(each.status not in (ACCEPTED, REFUSED) for each in requests)
        verdict.interrupted = sum(
            any(each.arrived <= kill.started <= each.ended for each in requests) for kill in self._records.kills
        )

    def _check_ends(self) -> None:
        accepted = {each.jti for each in self._records.requests if each.status == ACCEPTED}
        final = {each.jti: each.status for each in self._records.final}
        for jti in self._owner:
            if jti not in accepted or final.get(jti) != "acknowledged":
                text = "accepted" if jti in accepted else "not accepted"
                self.verdict.add("lost", f"{jti} is {final.get(jti, 'gone')}, {text}")
            if final.get(jti) == "acknowledged" and jti not in accepted:
                self.verdict.add("unsolicited", jti)
        for jti in final.keys() - self._owner.keys():
            self.verdict.add("published_twice", jti)

    def _check_tokens(self) -> None:
        tokens: dict[str, set[str]] = defaultdict(set)
        for each in self._records.requests:
            tokens[each.jti].add(each.token)
            if self._owner.get(each.jti) != each.receiver:
                self.verdict.add("wrong_receiver", f"{each.jti} at {each.receiver}")
        for jti, seen in tokens.items():
            if len(seen) > 1:
                self.verdict.add("token_changed", jti)

    def _check_concurrent(self, requests: list[PushRequest]) -> None:
        for before, after in itertools.pairwise(requests):
            if after.arrived < before.ended:
                self.verdict.add("concurrent", f"{before.jti} and {after.jti} at {before.receiver}")

    def _check_repeated(self, requests: list[PushRequest]) -> None:
        recorded: set[str] = set()
        for number, each in enumerate(requests):
            if each.jti in recorded:
                self.verdict.add("repeated", each.jti)
            if each.status != ACCEPTED or number + 1 == len(requests):
                continue
            following = requests[number + 1]
            if not self._was_killed_between(each.arrived, following.arrived):
                recorded.add(each.jti)
            self.verdict.repeated += any(later.jti == each.jti for later in requests[number + 1 :])

    def _was_killed_between(self, since: float, until: float) -> bool:
        sent = since - READ_DELAY_SECONDS_MAX
        return any(kill.ended >= sent and kill.started <= until for kill in self._records.kills)

    def _check_order(self, published: list[Published], requests: list[PushRequest]) -> None:
        waiting = [each.jti for each in published]
        for each in requests:
            if each.jti in waiting and waiting[0] != each.jti:
                self.verdict.add("out_of_order", f"{waiting[0]} by {each.jti}")
            if each.jti in waiting and each.status in (ACCEPTED, REFUSED):
                waiting.remove(each.jti)
