"""The world of the cases of subscriptions and shared signals: for each case new clients, without any of either."""

import re
from typing import Any

import msgspec

from restante.database.connection import Connection
from tests.conformance.cases import MISSING, body_of, check_headers, filled, found_at
from tests.conformance.runner import Request, World
from tests.conformance.signals_cases import Case, Step
from tests.conftest import ManualClock
from tests.events import bank
from tests.events.desk import resolve
from tests.server.serving import Served, WireAnswer

SCOPES = {
    "client": "eventpolling ssf.read ssf.manage",
    "other": "eventpolling ssf.read ssf.manage",
    "reader": "ssf.read",
    "unscoped": "accounts",
}
_DRAWN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")


class SignalsDesk(World[Case, Step]):
    def __init__(self, served: Served, clock: ManualClock) -> None:
        super().__init__(served, clock)
        # Addresses of callbacks are looked up when they are given; not in the world, here.
        self.node.event_push.pusher.client.resolve = resolve
        self._base = self.node.settings.public_url
        self._cases = 0

    def begin(self, case: Case) -> None:
        self._bound: dict[str, Any] = {"base": self._base}
        self._cases += 1
        self._tokens: dict[str, str] = self.write(_add_callers, self._cases)

    def request(self, step: Step) -> Request:
        method, _, target = str(filled(step.request, self._bound)).partition(" ")
        headers = list(step.headers.items())
        if step.by != "nobody":
            headers.append(("Authorization", f"Bearer {self._tokens[step.by]}"))
        if step.json is None:
            return Request(method, target, headers)
        headers.append(("Content-Type", "application/json"))
        return Request(method, target, headers, msgspec.json.encode(filled(step.json, self._bound)))

    def waiting_count(self) -> int:
        return self.node.signals.poll.bell.waiting_count

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        headers = [(name, _DRAWN.sub(b"<drawn>", value)) for name, value in answer.without_date().headers]
        return answer._replace(headers=headers, body=_DRAWN.sub(b"<drawn>", answer.body))

    def check(self, step: Step, answer: WireAnswer, before: Any) -> None:
        expected = step.expected
        assert answer.status == expected.status, answer.body
        check_headers(answer, expected.headers, [])
        if expected.is_empty:
            assert answer.body == b""
            return
        body = body_of(answer)
        if expected.json is not None:
            assert body == filled(expected.json, self._bound)
        for where, value in expected.has.items():
            assert found_at(body, where) == filled(value, self._bound), where
        assert [where for where in expected.lacks if found_at(body, where) != MISSING] == []
        self._bound |= {name: found_at(body, where) for name, where in step.save.items()}


def _add_callers(conn: Connection, number: int) -> dict[str, str]:
    return {name: bank.add_client(conn, f"{name}-{number}", scope).token for name, scope in SCOPES.items()}
