"""The inboxes of clients compared with a model: publishing, signing, polls, ACKs, errors, windows, retention.

The state machine performs the actions of publishers, clients, operators and time on a real database, in any order and
with any options. The model performs them on plain objects by the rules of the contract. They must never differ.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from restante.core.events.poll_acks import Fault, verdicts_of
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.inbox import inbox, inbox_retention
from restante.events.inbox.inbox import InboxOptions, InboxPollRequest, InboxPollResult
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.events import inbox_fixture
from tests.events.inbox_fixture import token_of
from tests.models.machines import DatabaseMachine, run_machine

CLIENTS = 2
KEEP_SECONDS = 100
FAULT = Fault("jwtIss", "wrong")
_STATES = Query("states", "SELECT client, jti, status FROM event_inbox ORDER BY id")
_SENT = Query(
    "sent",
    """SELECT inbox.jti, (SELECT MIN(note.sent_at) FROM event_hand_outs AS note
          WHERE note.client = inbox.client AND note.profile = inbox.profile AND note.through >= inbox.id) AS sent_at
       FROM event_inbox AS inbox WHERE inbox.status IN ('unsigned', 'ready') ORDER BY inbox.id""",
)

positions = st.lists(st.integers(0, 12), max_size=4, unique=True)


@dataclass
class Event:
    """The model of an event."""

    client: int
    jti: str
    status: str = "unsigned"
    visible_at: int = 0
    first_sent_at: int | None = None
    finished_at: int = 0


class EventInbox(DatabaseMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.database = Database(self.fresh.new(self.clock))
        self.clients = [self.database.write_now(inbox_fixture.add_client).id for _ in range(CLIENTS)]
        self.events: list[Event] = []
        self.published = 0

    def teardown(self) -> None:
        self.database.close()

    @initialize(
        window=st.sampled_from([0, 0, 60]), errors_again=st.booleans(), events_in_bytes=st.sampled_from([3, 99])
    )
    def configure(self, window: int, errors_again: bool, events_in_bytes: int) -> None:
        size = len("00000") + len(token_of("00000"))
        self.events_fitting = events_in_bytes
        self.options = InboxOptions(window * 1000, errors_again, events_in_bytes * size)

    @rule(seconds=st.sampled_from([1, 59, 60, 101]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(client=st.integers(0, CLIENTS - 1), count=st.integers(1, 4))
    def publish(self, client: int, count: int) -> None:
        new = [Event(self.clients[client], f"{self.published + n:05}") for n in range(count)]
        self.published += count
        self.database.write_now(inbox_fixture.put_unsigned, self.clients[client], *(event.jti for event in new))
        self.events += new

    @rule(count=st.integers(1, 6))
    def sign(self, count: int) -> None:
        """Sign the oldest events first, as the signer usually does."""
        for event in [event for event in self.events if event.status == "unsigned"][:count]:
            self.database.write_now(inbox_fixture.sign, event.client, event.jti)
            event.status = "ready"

    @rule(which=st.integers(0, 5))
    def sign_one_out_of_order(self, which: int) -> None:
        unsigned = [event for event in self.events if event.status == "unsigned"]
        if which < len(unsigned):
            self.database.write_now(inbox_fixture.sign, unsigned[which].client, unsigned[which].jti)
            unsigned[which].status = "ready"

    @rule(which=st.integers(0, 5))
    def release(self, which: int) -> None:
        errored = [event for event in self.events if event.status == "errored"]
        if which < len(errored):
            self.database.write_now(inbox_fixture.release, errored[which].client, errored[which].jti)
            errored[which].status = "ready"

    @rule()
    def evict(self) -> None:
        self.database.write_now(inbox_retention.evict, KEEP_SECONDS)
        before = self.clock.now_ms - KEEP_SECONDS * 1000
        self.events = [event for event in self.events if event.status != "acknowledged" or event.finished_at >= before]

    @rule(client=st.integers(0, CLIENTS - 1), limit=st.integers(0, 5), ack=positions, errs=positions)
    def poll(self, client: int, limit: int, ack: list[int], errs: list[int]) -> None:
        """The positions refer to all events, also to acknowledged ones and to those of other clients."""
        acked = {self._jti_at(position) for position in ack}
        errored = {self._jti_at(position) for position in errs}
        verdicts = verdicts_of(acked, dict.fromkeys(errored, FAULT))
        request = InboxPollRequest(self.clients[client], limit, verdicts)
        before = None if verdicts else self.database.read_now(inbox.read_inbox, self.options, request)
        result = self.database.write_now(inbox.poll_inbox, self.options, request)
        assert before is None or before == result
        self._apply_verdicts(self.clients[client], acked - errored, errored)
        self._check_result(self.clients[client], limit, errored, result)

    def _jti_at(self, position: int) -> str:
        return self.events[position].jti if position < len(self.events) else f"unknown-{position}"

    def _apply_verdicts(self, client: int, acked: set[str], errored: set[str]) -> None:
        for event in self.events:
            if event.client == client and event.status in ("ready", "errored"):
                if event.jti in acked:
                    event.status, event.finished_at = "acknowledged", self.clock.now_ms
                elif event.jti in errored:
                    event.status = "errored"

    def _check_result(self, client: int, limit: int, errored: set[str], result: InboxPollResult) -> None:
        redelivered = ("errored",) if self.options.redeliver_errored else ()
        left = [e for e in self.events if e.client == client and e.status in ("unsigned", "ready", *redelivered)]
        offered = []
        for event in left:
            if event.visible_at > self.clock.now_ms or (event.status == "errored" and event.jti in errored):
                continue
            if event.status == "unsigned":
                break
            offered.append(event)
        chosen = offered[: min(limit, self.events_fitting)]
        assert list(result.sets.items()) == [(event.jti, token_of(event.jti)) for event in chosen]
        assert result.has_more == (len(left) > len(chosen))
        for event in chosen:
            event.visible_at = self.clock.now_ms + self.options.redelivery_after_ms
            event.first_sent_at = event.first_sent_at or self.clock.now_ms
        if chosen:
            self._mark_skipped(client, chosen[-1])

    def _mark_skipped(self, client: int, newest: Event) -> None:
        """An event that the client refused before its delivery counts as sent together with a later event."""
        for event in self.events[: self.events.index(newest)]:
            if event.client == client and event.status == "errored":
                event.first_sent_at = event.first_sent_at or self.clock.now_ms

    @invariant()
    def inboxes_equal_the_model(self) -> None:
        rows = self.database.read_now(lambda conn: conn.all(_STATES))
        assert [tuple(dict(row).values()) for row in rows] == [(e.client, e.jti, e.status) for e in self.events]

    @invariant()
    def first_delivery_times_equal_the_model(self) -> None:
        rows = self.database.read_now(lambda conn: conn.all(_SENT))
        sent = {row["jti"]: row["sent_at"] for row in rows}
        expected = {event.jti: event.first_sent_at for event in self.events if event.status in ("unsigned", "ready")}
        assert sent == expected


def test_event_inbox(fresh: FreshDatabases) -> None:
    run_machine(EventInbox, fresh, examples=100, steps=30)
