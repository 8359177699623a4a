"""The checker of the events fault test: compares deliveries and acknowledgements with the published and final events.

Violations, by kind:
    redelivered     an event was delivered in or after the response to the poll that acknowledged or refused it
    lost            a published event is gone, or was neither acknowledged nor ever delivered
    ack_lost        an acknowledgement or error with a response is not in the final state
    unsolicited     an event is acknowledged or in error, but no client sent that
    token_changed   the token of an event was not the same bytes each time
    wrong_client    an event was delivered to a client that is not its recipient
    out_of_order    the events of one response are not in the order of their publishing
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.faults.campaigns import Violations
from tests.faults.events.records import AckSent, Delivered, FinalEvent, Published, Record

VIOLATIONS = ("redelivered", "lost", "ack_lost", "unsolicited", "token_changed", "wrong_client", "out_of_order")


@dataclass(slots=True)
class Verdict(Violations):
    published: int = 0
    delivered: int = 0
    acknowledged: int = 0
    errored: int = 0
    repeated: int = 0
    without_response: int = 0

    def __str__(self) -> str:
        return (
            f"{self.published} events, delivered {self.delivered} times, {self.repeated} of them repeated; "
            f"{self.acknowledged} acknowledged, {self.errored} in error; {self.without_response} without a response; "
            f"{len(self.violations)} violations"
        )


def check(records: Iterable[Record], final: Iterable[FinalEvent]) -> Verdict:
    return _Check(list(records), list(final)).verdict


class _Check:
    def __init__(self, records: list[Record], final: list[FinalEvent]) -> None:
        self.verdict = Verdict()
        self._order = {record.jti: n for n, record in enumerate(records) if isinstance(record, Published)}
        self._owner = {record.jti: record.client for record in records if isinstance(record, Published)}
        self._deliveries: dict[str, list[Delivered]] = defaultdict(list)
        self._acks: dict[str, list[AckSent]] = defaultdict(list)
        self._final = {each.jti: each for each in final}
        for record in records:
            if isinstance(record, Delivered):
                self._deliveries[record.jti].append(record)
            elif isinstance(record, AckSent):
                self._acks[record.jti].append(record)
        self._count(final)
        for jti in self._owner:
            self._check_event(jti)
        self._check_order()

    def _count(self, final: list[FinalEvent]) -> None:
        verdict = self.verdict
        verdict.published = len(self._owner)
        verdict.delivered = sum(map(len, self._deliveries.values()))
        verdict.repeated = sum(len(deliveries) - 1 for deliveries in self._deliveries.values())
        verdict.acknowledged = sum(each.status == "acknowledged" for each in final)
        verdict.errored = sum(each.status == "errored" for each in final)
        verdict.without_response = sum(not ack.has_response for acks in self._acks.values() for ack in acks)

    def _check_event(self, jti: str) -> None:
        deliveries, acks, final = self._deliveries[jti], self._acks[jti], self._final.get(jti)
        if any(each.client != self._owner[jti] for each in deliveries):
            self.verdict.add("wrong_client", jti)
        if len({each.token for each in deliveries} | ({final.token} if final else set())) > 1:
            self.verdict.add("token_changed", jti)
        if final is None or (final.status not in ("acknowledged", "errored") and not deliveries):
            self.verdict.add("lost", jti)
        answered = [ack.n for ack in acks if ack.has_response]
        if answered and any(each.n >= min(answered) for each in deliveries):
            self.verdict.add("redelivered", jti)
        if final is not None:
            self._check_status(final, acks)

    def _check_status(self, final: FinalEvent, acks: list[AckSent]) -> None:
        last = [ack for ack in acks if ack.has_response][-1:]
        expected = {"errored" if ack.is_error else "acknowledged" for ack in last}
        possible = {"errored" if ack.is_error else "acknowledged" for ack in acks}
        if expected and final.status not in expected | {"acknowledged"}:
            self.verdict.add("ack_lost", f"{final.jti} is {final.status}")
        if final.status in ("acknowledged", "errored") and final.status not in possible:
            self.verdict.add("unsolicited", f"{final.jti} is {final.status}")

    def _check_order(self) -> None:
        responses: dict[tuple[int, int], list[Delivered]] = defaultdict(list)
        for delivery in (each for deliveries in self._deliveries.values() for each in deliveries):
            responses[delivery.client, delivery.n].append(delivery)
        for response in responses.values():
            jtis = [delivery.jti for delivery in sorted(response, key=lambda delivery: delivery.position)]
            known = [self._order[jti] for jti in jtis if jti in self._order]
            if known != sorted(known):
                self.verdict.add("out_of_order", ", ".join(jtis))
