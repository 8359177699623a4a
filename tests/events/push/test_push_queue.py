"""The push queue: order, leases, retry waits, the circuit breaker and giving up, with a manual clock."""

from typing import Any

import pytest

from restante.core.backoff import Backoff
from restante.core.events.push_outcome import PushResult, PushRules
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.publishing import listing
from restante.events.push import push_queue, receivers
from restante.events.push.push_queue import LeaseHolder, PushDelivery, RecordedPush
from tests.conftest import START_MS, ManualClock
from tests.events.inbox_fixture import token_of
from tests.events.push_fixture import acknowledge, add_client, add_event, event_of, receiver_of, sign, suspend

URL = "https://tpp.example/hook"
RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=1000, circuit_failures=3, circuit_seconds=30, jitter=0.5)
ONE, OTHER = LeaseHolder("one", 60_000), LeaseHolder("other", 60_000)
DELIVERED = PushResult(202)
DOWN = PushResult(None, "no response")
REFUSED = PushResult(400, "response status 400")


_MAKE_DUE = Query("make_due", "UPDATE event_inbox SET push_at = 0, push_attempts = 0 WHERE jti = :jti")


def make_due(conn: Connection, jti: str) -> None:
    """Begin the attempts of the event anew, as a release does."""
    conn.run(_MAKE_DUE, jti=jti)


class Queue:
    """The push queue of one database, called as the service calls it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add_receiver(self, url: str = URL, profile: receivers.Profile = "open-banking") -> int:
        client = add_client(self.database)
        self.database.write_now(receivers.set_receiver, client, profile, url)
        return client

    def add(self, client: int, **more: Any) -> str:
        return add_event(self.database, client, **more)

    def acquire(self, holder: LeaseHolder = ONE, limit: int = 10) -> list[PushDelivery]:
        return self.database.write_now(push_queue.acquire, holder, limit)

    def record(
        self,
        sent: PushDelivery,
        result: PushResult,
        holder: LeaseHolder = ONE,
        chance: float = 0.0,
        keep_lease: bool = True,
    ) -> RecordedPush:
        return self.database.write_now(
            push_queue.record_result, holder, RULES, sent, result, chance, keep_lease=keep_lease
        )

    def fail(self, holder: LeaseHolder = ONE, result: PushResult = DOWN) -> RecordedPush:
        (sent,) = self.acquire(holder)
        return self.record(sent, result, holder)


@pytest.fixture
def queue(database: Database) -> Queue:
    return Queue(database)


@pytest.fixture
def client(queue: Queue) -> int:
    return queue.add_receiver()


def test_delivery_has_url_and_token(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (delivery,) = queue.acquire()
    assert (delivery.client, delivery.url, delivery.jti, delivery.token) == (client, URL, jti, token_of(jti))
    assert delivery.attempts == 0


def test_times_of_failed_pushes_are_kept(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    expected = []
    for _ in range(3):
        queue.fail()
        expected.append(clock())
        clock.advance(60)
    (delivery,) = queue.acquire()
    queue.record(delivery, DELIVERED)
    shown = queue.database.read_now(listing.show, jti)
    assert shown.failed_pushes == [iso_precise(at) for at in expected]
    assert shown.status == "acknowledged"


def test_last_hundred_times_of_failed_pushes_are_kept(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    for _ in range(102):
        queue.fail(result=REFUSED)
        queue.database.write_now(make_due, jti)
        clock.advance(60)
    shown = queue.database.read_now(listing.show, jti)
    assert len(shown.failed_pushes) == 100
    assert shown.failed_pushes[0] == iso_precise(START_MS + 2 * 60_000)


def test_202_acknowledges_the_event(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    (delivery,) = queue.acquire()
    clock.advance(2)
    assert queue.record(delivery, DELIVERED) == RecordedPush("delivered", 0, None)
    event = event_of(queue.database, jti)
    assert (event["status"], event["finished_at"], event["push_at"]) == ("acknowledged", START_MS + 2000, None)
    assert receiver_of(queue.database, client)["last_delivered_at"] == START_MS + 2000
    assert queue.acquire() == []


def test_events_are_sent_oldest_first(queue: Queue, client: int) -> None:
    jtis = [queue.add(client) for _ in range(3)]
    (delivery,) = queue.acquire()
    sent = []
    following: PushDelivery | None = delivery
    while following is not None:
        sent.append(following.jti)
        following = queue.record(following, DELIVERED).next_delivery
    assert sent == jtis


def test_receiver_is_leased_by_one_process_at_a_time(queue: Queue, client: int) -> None:
    queue.add(client)
    queue.add(client)
    (delivery,) = queue.acquire(ONE)
    assert queue.acquire(OTHER) == []
    assert queue.acquire(ONE) == []
    queue.record(delivery, DELIVERED, keep_lease=False)
    assert len(queue.acquire(OTHER)) == 1


def test_expired_lease_is_acquired_by_another_with_the_same_bytes(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    jti = queue.add(client)
    (lost,) = queue.acquire(ONE)
    assert queue.database.read_now(push_queue.seconds_until_due) == 60
    clock.advance(59.999)
    assert queue.acquire(OTHER) == []
    clock.advance(0.001)
    (again,) = queue.acquire(OTHER)
    assert (again.jti, again.token) == (jti, lost.token)


def test_late_202_acknowledges_and_changes_nothing_else(queue: Queue, client: int, clock: ManualClock) -> None:
    jti, following = queue.add(client), queue.add(client)
    (late,) = queue.acquire(ONE)
    clock.advance(61)
    queue.acquire(OTHER)
    before = receiver_of(queue.database, client)
    assert queue.record(late, DELIVERED, ONE) == RecordedPush("delivered", 0, None)
    assert event_of(queue.database, jti)["status"] == "acknowledged"
    assert receiver_of(queue.database, client) == before
    assert event_of(queue.database, following)["push_attempts"] == 0


def test_late_failure_is_not_counted(queue: Queue, client: int, clock: ManualClock) -> None:
    queue.add(client)
    (late,) = queue.acquire(ONE)
    clock.advance(61)
    queue.acquire(OTHER)
    before = receiver_of(queue.database, client)
    queue.record(late, DOWN, ONE)
    assert receiver_of(queue.database, client) == before


def test_late_refusal_does_not_revive_an_event_that_was_given_up(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    (late,) = queue.acquire(ONE)
    for _ in range(RULES.backoff.attempts_max):
        clock.advance(61)
        (sent,) = queue.acquire(OTHER)
        queue.record(sent, REFUSED, OTHER)
    given_up = event_of(queue.database, jti)
    assert given_up["push_at"] is None
    assert queue.record(late, REFUSED, ONE) == RecordedPush("refused", 0, None)
    assert event_of(queue.database, jti) == given_up
    clock.advance(1000)
    assert queue.acquire() == []


def test_acknowledged_event_is_not_sent(queue: Queue, client: int) -> None:
    first, second = queue.add(client), queue.add(client)
    acknowledge(queue.database, first)
    (delivery,) = queue.acquire()
    assert delivery.jti == second


def test_event_acknowledged_while_it_is_sent_stays_acknowledged(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (delivery,) = queue.acquire()
    acknowledge(queue.database, jti)
    queue.record(delivery, DOWN)
    event = event_of(queue.database, jti)
    assert (event["status"], event["push_attempts"], event["push_at"]) == ("acknowledged", 0, None)


def test_failure_keeps_events_in_order(queue: Queue, client: int, clock: ManualClock) -> None:
    first, _second = queue.add(client), queue.add(client)
    assert queue.fail() == RecordedPush("failed", 0, None)
    assert queue.acquire() == []
    assert queue.database.read_now(push_queue.seconds_until_due) == 1
    clock.advance(1)
    (again,) = queue.acquire()
    assert (again.jti, again.attempts) == (first, 1)
    event = event_of(queue.database, first)
    assert (event["push_attempts"], event["push_problem"], event["status"]) == (1, "no response", "ready")


def test_waits_grow_until_the_circuit_opens_and_success_closes_it(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    queue.add(client)
    waits = []
    for _ in range(3):
        queue.fail()
        state = receiver_of(queue.database, client)
        waits.append((state["retry_at"] - clock.now_ms) / 1000)
        clock.now_ms = state["retry_at"]
    assert waits == [1, 2, 30]
    assert queue.database.read_now(push_queue.open_circuits, 3) == 1
    (probe,) = queue.acquire()
    queue.record(probe, DELIVERED)
    assert queue.database.read_now(push_queue.open_circuits, 3) == 0
    state = receiver_of(queue.database, client)
    assert (state["failures"], state["retry_at"], state["problem"]) == (0, 0, None)


def test_jitter_spreads_the_waits(queue: Queue, client: int) -> None:
    queue.add(client)
    (sent,) = queue.acquire()
    queue.record(sent, DOWN, chance=1.0)
    assert receiver_of(queue.database, client)["retry_at"] == START_MS + 1500


def test_event_is_given_up_after_its_attempts_and_left_to_polls(queue: Queue, client: int, clock: ManualClock) -> None:
    first, second = queue.add(client), queue.add(client)
    given_up = []
    for _ in range(4):
        given_up.append(queue.fail().given_up)
        clock.now_ms = receiver_of(queue.database, client)["retry_at"]
    assert given_up == [0, 0, 0, 1]
    event = event_of(queue.database, first)
    assert (event["status"], event["push_at"], event["push_attempts"]) == ("ready", None, 4)
    (delivery,) = queue.acquire()
    assert delivery.jti == second


def test_failure_gives_up_events_that_are_too_old(queue: Queue, client: int, clock: ManualClock) -> None:
    old = [queue.add(client) for _ in range(3)]
    clock.advance(999)
    young = queue.add(client)
    clock.advance(1)
    assert queue.fail().given_up == 3
    assert [event_of(queue.database, jti)["push_at"] for jti in old] == [None] * 3
    assert event_of(queue.database, young)["push_at"] is not None


def test_refused_event_does_not_hold_back_others(queue: Queue, client: int, clock: ManualClock) -> None:
    refused, other = queue.add(client), queue.add(client)
    (sent,) = queue.acquire()
    recorded_push = queue.record(sent, REFUSED)
    assert recorded_push.outcome == "refused"
    assert recorded_push.next_delivery is not None
    assert recorded_push.next_delivery.jti == other
    queue.record(recorded_push.next_delivery, DELIVERED)
    assert queue.acquire() == []
    clock.advance(1)
    (again,) = queue.acquire()
    assert (again.jti, again.attempts) == (refused, 1)
    assert receiver_of(queue.database, client)["failures"] == 0


def test_refused_event_is_given_up_after_its_attempts(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    outcomes = []
    for _ in range(4):
        outcomes.append(queue.fail(result=REFUSED).given_up)
        clock.advance(60)
    assert outcomes == [0, 0, 0, 1]
    assert event_of(queue.database, jti)["status"] == "ready"
    assert queue.acquire() == []


@pytest.mark.parametrize(
    ("body", "recorded"),
    [
        (b'{"err":"invalid_key","description":"unknown kid"}', ("errored", "invalid_key", "unknown kid")),
        (b'{"err":"invalid_key"}', ("errored", "invalid_key", "invalid_key")),
        (b'{"err":""}', ("ready", None, None)),
        (b'{"err":"a\\u0000","description":"b\\u0000c"}', ("errored", "a", "bc")),
        (b'{"err":"\\u0000"}', ("ready", None, None)),
        (b'{"err":"invalid_key","description":null}', ("errored", "invalid_key", "invalid_key")),
        (b'{"err":"invalid_key","description":{"en":"x"}}', ("errored", "invalid_key", "invalid_key")),
        (b'{"err":1}', ("ready", None, None)),
        (b"[" * 10_000, ("ready", None, None)),
        (b"\xff", ("ready", None, None)),
        (b"", ("ready", None, None)),
    ],
)
def test_error_body_of_a_shared_signals_receiver_makes_the_event_errored(
    queue: Queue, body: bytes, recorded: tuple[str, str | None, str | None]
) -> None:
    client = queue.add_receiver(profile="shared-signals")
    jti = queue.add(client, profile="shared-signals", stream=1)
    (sent,) = queue.acquire()
    queue.record(sent, PushResult(400, "response status 400", body))
    event = event_of(queue.database, jti)
    assert (event["status"], event["err"], event["err_description"]) == recorded


def test_error_body_of_an_open_banking_receiver_does_not_end_its_attempts(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (sent,) = queue.acquire()
    queue.record(sent, PushResult(400, "response status 400", b'{"err":"invalid_key","description":"x"}'))
    assert event_of(queue.database, jti)["status"] == "ready"


def test_unsigned_event_is_not_overtaken(queue: Queue, client: int) -> None:
    unsigned = queue.add(client, status="unsigned")
    queue.add(client)
    assert queue.acquire() == []
    sign(queue.database, unsigned)
    (delivery,) = queue.acquire()
    assert delivery.jti == unsigned


def test_event_signed_after_this_transaction_began_is_not_overtaken(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    newer_than_this_transaction = clock.now_ms + 5
    clock.now_ms = newer_than_this_transaction
    older = queue.add(client)
    clock.now_ms -= 5
    queue.add(client)
    assert queue.acquire() == []
    clock.now_ms = newer_than_this_transaction
    (delivery,) = queue.acquire()
    assert delivery.jti == older


def test_suspended_or_paused_receiver_gets_no_events(queue: Queue, client: int) -> None:
    queue.add(client)
    suspend(queue.database, client)
    assert queue.acquire() == []
    suspend(queue.database, client, None)
    queue.database.write_now(receivers.pause, client, "open-banking", 0)
    assert queue.acquire() == []
    queue.database.write_now(receivers.resume, client, "open-banking")
    assert len(queue.acquire()) == 1


def test_paused_receiver_gets_events_up_to_the_pause(queue: Queue, client: int) -> None:
    first, last, later = (queue.add(client) for _ in range(3))
    open_through = event_of(queue.database, last)["id"]
    queue.database.write_now(receivers.pause, client, "open-banking", open_through)
    (delivery,) = queue.acquire()
    following = queue.record(delivery, DELIVERED).next_delivery
    assert following is not None
    assert [delivery.jti, following.jti] == [first, last]
    assert queue.record(following, DELIVERED).next_delivery is None
    assert queue.acquire() == []
    queue.database.write_now(receivers.resume, client, "open-banking")
    assert [each.jti for each in queue.acquire()] == [later]


@pytest.mark.parametrize("stop", ["suspend", "pause", "move", "remove"])
def test_stopped_receiver_gets_no_event_after_the_current_one(queue: Queue, client: int, stop: str) -> None:
    queue.add(client)
    queue.add(client)
    (sent,) = queue.acquire()
    match stop:
        case "suspend":
            suspend(queue.database, client)
        case "pause":
            queue.database.write_now(receivers.pause, client, "open-banking", 0)
        case "move":
            queue.database.write_now(receivers.set_receiver, client, "open-banking", "https://new.example/")
        case "remove":
            queue.database.write_now(receivers.remove_receiver, client, "open-banking")
    assert queue.record(sent, DELIVERED) == RecordedPush("delivered", 0, None)


def test_failures_of_an_old_url_are_not_counted_for_a_new_one(queue: Queue, client: int) -> None:
    queue.add(client)
    (sent,) = queue.acquire()
    queue.database.write_now(receivers.set_receiver, client, "open-banking", "https://new.example/")
    queue.record(sent, DOWN)
    assert receiver_of(queue.database, client)["failures"] == 0
    (again,) = queue.acquire()
    assert again.url == "https://new.example/"


def test_least_recently_used_receiver_comes_first(queue: Queue, clock: ManualClock) -> None:
    busy, quiet = queue.add_receiver(), queue.add_receiver()
    for _ in range(3):
        queue.add(busy)
    (sent,) = queue.acquire(limit=1)
    clock.advance(1)
    queue.add(quiet)
    queue.record(sent, DELIVERED, keep_lease=False)
    (following,) = queue.acquire(limit=1)
    assert following.client == quiet


def test_limit_bounds_the_leased_receivers(queue: Queue) -> None:
    for _ in range(3):
        queue.add(queue.add_receiver())
    assert len(queue.acquire(limit=2)) == 2
    assert len(queue.acquire(limit=2)) == 1


def test_release_all_releases_leases_of_dead_processes(queue: Queue, client: int) -> None:
    queue.add(client)
    queue.acquire(ONE)
    assert queue.database.write_now(push_queue.release_all) == 1
    assert len(queue.acquire(OTHER)) == 1


def test_nothing_is_due_without_waiting_events(queue: Queue, client: int) -> None:
    assert queue.database.read_now(push_queue.seconds_until_due) is None
    assert queue.acquire() == []
