"""The world of the cases of event polling.

For each case there are new clients: the one whose inbox it is, another, one without the scope, one with an expired
token, a suspended one. The ids of events are the case's own, so what a case before it left behind is taken away.
"""

import re
import time
from typing import Any

import msgspec

from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import ClientRevoked, Role
from tests.conformance.cases import filled
from tests.conformance.event_answers import check_answer
from tests.conformance.event_cases import Case, Step
from tests.conformance.runner import Request, World
from tests.conftest import START_MS, ManualClock
from tests.events import bank
from tests.events.bank import Customer
from tests.identity.population import add_device, add_user
from tests.server.serving import Served, WireAnswer

Inbox = list[tuple[Any, ...]]

_CLEAR = [Query("clear", f"DELETE FROM {table}") for table in ("event_hand_outs", "event_texts", "event_inbox")]
_STATES = Query("states", "SELECT jti, status FROM event_inbox ORDER BY id")
_INBOX = Query("inbox", "SELECT * FROM event_inbox ORDER BY id")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EventBank(World[Case, Step]):
    def __init__(self, served: Served, clock: ManualClock) -> None:
        super().__init__(served, clock)
        user_id = add_user(self.node.database)
        device = self.node.tokens.mint(user_id, add_device(self.node.database, user_id))
        admin = self.write(api_keys.create, "admin", Role.admin)[1]
        self._keys = {"device": device, "admin": admin, "garbage": "et_garbage"}
        self._cases = 0

    def begin(self, case: Case) -> None:
        """New clients, empty inboxes, and the moment at which every case begins."""
        self._cases += 1
        self.clock.now_ms = START_MS
        self.bound: dict[str, Any] = {}
        self._customers = self.write(self._furnish)
        self.served.call(self.node.events.poll.bell.ring_all)
        self.clock.advance(1)
        for name in ("client", "other", "unscoped"):
            self.served.wait_for(self.node.client_tokens.verify(self._customers[name].token, None))
        self._tick()

    def _furnish(self, conn: Connection) -> dict[str, Customer]:
        for query in _CLEAR:
            conn.run(query)
        made = {name: self._customer(conn, name) for name in ("client", "other", "suspended")}
        bank.suspend(conn, made["suspended"].id)
        return {
            **made,
            "unscoped": self._customer(conn, "unscoped", scope="accounts"),
            "expired": self._customer(conn, "expired", seconds=1),
        }

    def _customer(self, conn: Connection, name: str, **more: Any) -> Customer:
        return bank.add_client(conn, f"{name}-{self._cases}", **more)

    # What happens beside requests.

    def happen(self, step: Step) -> None:
        client = self._customers[step.of].id
        if step.ready is not None:
            self.put_ready(step.ready, step.of)
        elif step.unsigned is not None:
            self.write(bank.put_unsigned, client, *step.unsigned)
        elif step.advance is not None:
            self.clock.advance(step.advance)
            self.served.call(self.node.events.poll.bell.ring_all)
            self._tick()
        elif step.suspend is not None:
            self.write(self._suspend, client)
            self.served.until(lambda: self.node.client_tokens.cached_count == 0)
        for jti in step.sign or ():
            self.write(bank.sign, client, jti)
        for jti in step.release or ():
            self.write(bank.release, client, jti)
        self._settle()

    def meanwhile(self, step: Step) -> None:
        if step.meanwhile or step.times_out:
            self.served.until(lambda: self.waiting_count() == 1)
        if step.meanwhile:
            self.put_ready(step.meanwhile)
        elif step.times_out:
            self.served.call(self.time_out)

    def put_ready(self, jtis: list[str], of: str = "client") -> None:
        self.write(bank.put_ready, self._customers[of].id, *jtis)

    def _suspend(self, conn: Connection, client: int) -> None:
        bank.suspend(conn, client)
        conn.announce(ClientRevoked(client))

    def _tick(self) -> None:
        # Tokens are remembered by the clock of the process; only the database's is moved.
        self.served.call(self.node.events.tick, time.time())

    def _settle(self) -> None:
        """Until the loop has heard what the commit announced, which it was told before this."""
        self.served.call(lambda: None)

    # Requests.

    def request(self, step: Step) -> Request:
        method, _, path = step.request.partition(" ")
        return Request(method, path, self.headers(step), self.body(step))

    def body(self, step: Step) -> bytes:
        if step.body is not None:
            return step.body.encode()
        return b"" if step.json is None else msgspec.json.encode(step.json)

    def headers(self, step: Step) -> list[tuple[str, str]]:
        headers = [(name, str(filled(value, self.bound))) for name, value in step.headers]
        names = {name.lower() for name, _ in headers}
        if step.by != "nobody" and "authorization" not in names:
            customer = self._customers.get(step.by)
            token = self._keys[step.by] if customer is None else customer.token
            headers.insert(0, ("Authorization", f"Bearer {token}"))
        if "content-type" not in names and self.body(step):
            headers.append(("Content-Type", "application/json"))
        return headers

    # What came of it.

    def look(self, step: Step) -> Inbox | None:
        return None if step.expected.changes is None else self.inbox()

    def check(self, step: Step, answer: WireAnswer, before: Inbox | None) -> None:
        check_answer(step, filled(step.expected.headers, self.bound), answer)
        if before is not None:
            assert (self.inbox() != before) == step.expected.changes
        states = self.states()
        assert {jti: states.get(jti, "gone") for jti in step.expected.states} == step.expected.states
        for name, header in step.save.items():
            self.bound[name] = (answer.header(header.encode()) or b"").decode()

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        """The answer without its date, and with what was drawn at random named."""
        headers = [(name, _UUID.sub(b"<uuid>", value)) for name, value in answer.without_date().headers]
        return answer._replace(headers=headers, body=_UUID.sub(b"<uuid>", answer.body))

    def states(self) -> dict[str, str]:
        return {row["jti"]: row["status"] for row in self.node.database.read_now(lambda conn: conn.all(_STATES))}

    def inbox(self) -> Inbox:
        rows = self.node.database.read_now(lambda conn: conn.all(_INBOX))
        return [tuple(dict(row).values()) for row in rows]

    def waiting_count(self) -> int:
        return self.node.events.poll.bell.waiting_count

    def time_out(self) -> None:
        """The end of the wait, as the lane and the application call for it."""
        for poll in self.node.events.poll.bell.everyone_waiting():
            self.node.events.poll.expire(poll)
