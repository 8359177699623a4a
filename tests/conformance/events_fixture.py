"""The conformance cases of event polling.

Each case has new clients: the owner of the inbox (`client`), another one, one without the scope, one with the scope
`accounts`, one with an expired token, and a suspended one. Cases use the same event ids, so the events of the previous
case are deleted.
"""

import re
import time
from typing import Any, Literal

import msgspec

from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import ClientRevoked, Role
from tests.conformance.cases import Expected, MultiStepCase, Step, body_of, check_response, check_value, filled
from tests.conformance.open_banking import check_open_banking, error_code
from tests.conformance.runner import ProtocolFixture, Request
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient, token_of
from tests.identity.people_and_devices import add_device, add_user
from tests.server.live_server import LiveServer, RawResponse

Inbox = list[tuple[Any, ...]]

_CLEAR = [Query("clear", f"DELETE FROM {table}") for table in ("event_hand_outs", "event_texts", "event_inbox")]
_STATES = Query("states", "SELECT jti, status FROM event_inbox ORDER BY id")
_INBOX = Query("inbox", "SELECT * FROM event_inbox ORDER BY id")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

INTERACTION_ID = b"x-fapi-interaction-id"

Caller = Literal[
    "client", "other", "unscoped", "accounts", "expired", "suspended", "anonymous", "garbage", "device", "admin"
]


class EventsExpected(Expected, forbid_unknown_fields=True, kw_only=True):
    """The expected response and its effects."""

    # The delivered events in order, each with the bytes of its token.
    sets: list[str] | None = None
    more: bool | None = None
    # The code of an error, as version 3.1 names it after UK.OBIE., and its path.
    code: str | None = None
    path: str | None = None
    # Whether the request changes anything in the inboxes.
    changes: bool | None = None
    # The status of events after the request.
    states: dict[str, str] = msgspec.field(default_factory=dict)


class EventsStep(Step, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of the first six fields; otherwise a request with the body `json` or `body`."""

    ready: list[str] | None = None
    unsigned: list[str] | None = None
    sign: list[str] | None = None
    release: list[str] | None = None
    advance: float | None = None
    suspend: bool | None = None

    of: Literal["client", "other"] = "client"
    by: Caller = "client"
    request: str = "POST /events"
    json: Any = None
    body: str | None = None
    # Without a Content-Type here, a default one is sent if there is a body.
    headers: list[tuple[str, str]] = msgspec.field(default_factory=list)
    # Events that become ready while the poll is parked, or the end of its wait.
    meanwhile: list[str] = msgspec.field(default_factory=list)
    times_out: bool = False
    # Names of values that later steps use, with the headers that have them.
    save: dict[str, str] = msgspec.field(default_factory=dict)
    fast_lane: bool = True
    expected: EventsExpected = msgspec.field(default_factory=EventsExpected)

    def is_request(self) -> bool:
        others = (self.ready, self.unsigned, self.sign, self.release, self.advance, self.suspend)
        return all(each is None for each in others)

    def uses_fast_lane(self) -> bool:
        return self.fast_lane


EventsCase = MultiStepCase[EventsStep]


class EventsFixture(ProtocolFixture[EventsCase, EventsStep]):
    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        super().__init__(server, clock)
        user_id = add_user(self.node.database)
        device = self.node.identity.device_tokens.mint(user_id, add_device(self.node.database, user_id))
        admin = self.write(api_keys.create, "admin", Role.admin)[1]
        self._keys = {"device": device, "admin": admin, "garbage": "et_garbage"}
        self._case_count = 0

    def set_up(self, case: EventsCase) -> None:
        """Reset the clock, empty the inboxes, and add new clients."""
        self._case_count += 1
        self.clock.now_ms = START_MS
        self._clients = self.write(self._add_clients)
        self.server.call(self.node.events.poll.waiters.notify_all)
        self.clock.advance(1)
        for name in ("client", "other", "unscoped", "accounts"):
            self.server.wait_for(self.node.identity.client_tokens.verify(self._clients[name].token, None))
        self._tick()

    def _add_clients(self, conn: Connection) -> dict[str, PollingClient]:
        for query in _CLEAR:
            conn.run(query)
        added = {name: self._add_client(conn, name) for name in ("client", "other", "suspended")}
        inbox_fixture.suspend(conn, added["suspended"].id)
        return {
            **added,
            "unscoped": self._add_client(conn, "unscoped", scope="ssf.read"),
            "accounts": self._add_client(conn, "accounts", scope="accounts"),
            "expired": self._add_client(conn, "expired", seconds=1),
        }

    def _add_client(self, conn: Connection, name: str, **more: Any) -> PollingClient:
        return inbox_fixture.add_client(conn, f"{name}-{self._case_count}", **more)

    def perform(self, step: EventsStep) -> None:
        client = self._clients[step.of].id
        if step.ready is not None:
            self.put_ready(step.ready, step.of)
        elif step.unsigned is not None:
            self.write(inbox_fixture.put_unsigned, client, *step.unsigned)
        elif step.advance is not None:
            self.clock.advance(step.advance)
            self.server.call(self.node.events.poll.waiters.notify_all)
            self._tick()
        elif step.suspend is not None:
            self.write(self._suspend, client)
            self.server.wait_until(lambda: self.node.identity.client_tokens.cached_count == 0)
        for jti in step.sign or ():
            self.write(inbox_fixture.sign, client, jti)
        for jti in step.release or ():
            self.write(inbox_fixture.release, client, jti)
        self._wait_for_loop()

    def act_while_waiting(self, step: EventsStep) -> None:
        if step.meanwhile or step.times_out:
            self.server.wait_until(lambda: self.parked_count() == 1)
        if step.meanwhile:
            self.put_ready(step.meanwhile)
        elif step.times_out:
            self.server.call(self.time_out)

    def put_ready(self, jtis: list[str], of: str = "client") -> None:
        self.write(inbox_fixture.put_ready, self._clients[of].id, *jtis)

    def _suspend(self, conn: Connection, client: int) -> None:
        inbox_fixture.suspend(conn, client)
        conn.add_commit_event(ClientRevoked(client))

    def _tick(self) -> None:
        # Tokens are cached by the clock of the process; only the clock of the database is moved.
        self.server.call(self.node.events.tick, time.time())

    def _wait_for_loop(self) -> None:
        """Wait until the event loop has handled the commit events, which were scheduled before this call."""
        self.server.call(lambda: None)

    def request(self, step: EventsStep) -> Request:
        method, _, path = step.request.partition(" ")
        return Request(method, path, self.headers(step), self.body(step))

    def body(self, step: EventsStep) -> bytes:
        if step.body is not None:
            return step.body.encode()
        return b"" if step.json is None else msgspec.json.encode(step.json)

    def headers(self, step: EventsStep) -> list[tuple[str, str]]:
        headers = [(name, str(filled(value, self.names))) for name, value in step.headers]
        names = {name.lower() for name, _ in headers}
        if step.by != "anonymous" and "authorization" not in names:
            client = self._clients.get(step.by)
            token = self._keys[step.by] if client is None else client.token
            headers.insert(0, ("Authorization", f"Bearer {token}"))
        if "content-type" not in names and self.body(step):
            headers.append(("Content-Type", "application/json"))
        return headers

    def snapshot(self, step: EventsStep) -> Inbox | None:
        return None if step.expected.changes is None else self.inbox()

    def check(self, step: EventsStep, response: RawResponse, before: Inbox | None) -> None:
        check_response(step.expected, response, self.names)
        assert response.header(b"cache-control") == b"no-store"
        check_interaction_id(step, response)
        check_open_banking(response, body_of(response))
        if response.body:
            check_body(step.expected, body_of(response))
        if step.expected.code is not None:
            self._check_error(step, body_of(response))
        if before is not None:
            assert (self.inbox() != before) == step.expected.changes
        states = self.states()
        assert {jti: states.get(jti, "gone") for jti in step.expected.states} == step.expected.states
        for name, header in step.save.items():
            self.names[name] = (response.header(header.encode()) or b"").decode()

    def _check_error(self, step: EventsStep, body: Any) -> None:
        expected, path = step.expected, step.request.partition(" ")[2]
        assert list(body) == ["Code", "Id", "Message", "Errors"]
        assert body["Code"].startswith(f"{expected.status} ")
        [item] = body["Errors"]
        root_version = self.node.settings.events_root_version
        assert item["ErrorCode"] == error_code(expected.code or "", path, root_version), body
        assert item["Message"] == body["Message"] != ""
        check_value(expected.path, item.get("Path"), "Path")

    def normalized(self, response: RawResponse) -> RawResponse:
        headers = [(name, _UUID.sub(b"<uuid>", value)) for name, value in response.without_date().headers]
        return response._replace(headers=headers, body=_UUID.sub(b"<uuid>", response.body))

    def states(self) -> dict[str, str]:
        return {row["jti"]: row["status"] for row in self.node.database.read_now(lambda conn: conn.all(_STATES))}

    def inbox(self) -> Inbox:
        rows = self.node.database.read_now(lambda conn: conn.all(_INBOX))
        return [tuple(dict(row).values()) for row in rows]

    def parked_count(self) -> int:
        return self.node.events.poll.parked_count

    def time_out(self) -> None:
        """End the wait of all parked polls, as the fast lane and the application do."""
        for poll in self.node.events.poll.waiters.all_waiters():
            self.node.events.poll.expire(poll)


def check_interaction_id(step: EventsStep, response: RawResponse) -> None:
    """Every response has an interaction id: the valid one of the request, or a new one."""
    sent = [value for name, value in step.headers if name.lower() == INTERACTION_ID.decode()]
    actual = response.header(INTERACTION_ID)
    assert actual is not None
    if len(sent) == 1 and is_valid_interaction_id(sent[0]):
        assert actual.decode() == sent[0]
    else:
        check_value("~[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", actual.decode(), "the interaction id")


def is_valid_interaction_id(sent: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.~:+/=-]{1,128}", sent) is not None


def check_body(expected: EventsExpected, body: Any) -> None:
    assert body is not None, "the content type is not application/json"
    if expected.status == 200:
        assert list(body) == ["sets", "moreAvailable"]
        assert type(body["moreAvailable"]) is bool
    if expected.sets is not None:
        assert list(body["sets"].items()) == [(jti, token_of(jti)) for jti in expected.sets]
    if expected.more is not None:
        assert body["moreAvailable"] is expected.more
