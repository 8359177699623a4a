"""Claims and what comes of them: order, leases, back-off, the circuit, giving up. With a clock that is moved."""

from typing import Any

import pytest

from restante.core.backoff import Backoff
from restante.core.push_outcome import PushRules
from restante.database.database import Database
from restante.events import push_queue, receivers
from restante.events.push_queue import Delivery, Holder, Result, Settled
from tests.conftest import START_MS, ManualClock
from tests.events.pushing import (
    acknowledge,
    add_client,
    add_event,
    event_of,
    receiver_of,
    sign,
    suspend,
    token_of,
)

URL = "https://tpp.example/hook"
RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=1000, circuit_failures=3, circuit_seconds=30, jitter=0.5)
ONE, OTHER = Holder("one", 60_000), Holder("other", 60_000)
TAKEN = Result(202)
DOWN = Result(None, "no answer")
REFUSED = Result(400, "it answered 400")


class Queue:
    """The queue of one database, asked as the service asks it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add_receiver(self, url: str = URL, profile: receivers.Profile = "open-banking") -> int:
        client = add_client(self.database)
        self.database.write_now(receivers.put, client, profile, url)
        return client

    def add(self, client: int, **more: Any) -> str:
        return add_event(self.database, client, **more)

    def claim(self, holder: Holder = ONE, limit: int = 10) -> list[Delivery]:
        return self.database.write_now(push_queue.claim, holder, limit)

    def settle(
        self, sent: Delivery, result: Result, holder: Holder = ONE, chance: float = 0.0, goes_on: bool = True
    ) -> Settled:
        return self.database.write_now(push_queue.settle, holder, RULES, sent, result, chance, goes_on=goes_on)

    def fail(self, holder: Holder = ONE, result: Result = DOWN) -> Settled:
        (sent,) = self.claim(holder)
        return self.settle(sent, result, holder)


@pytest.fixture
def queue(database: Database) -> Queue:
    return Queue(database)


@pytest.fixture
def client(queue: Queue) -> int:
    return queue.add_receiver()


def test_a_claim_has_all_that_is_needed_to_send(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (delivery,) = queue.claim()
    assert (delivery.client, delivery.url, delivery.jti, delivery.token) == (client, URL, jti, token_of(jti))
    assert delivery.attempts == 0


def test_what_was_answered_202_is_acknowledged_as_by_a_poll(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    (delivery,) = queue.claim()
    clock.advance(2)
    assert queue.settle(delivery, TAKEN) == Settled("delivered", 0, None)
    event = event_of(queue.database, jti)
    assert (event["status"], event["finished_at"], event["push_at"]) == ("acknowledged", START_MS + 2000, None)
    assert receiver_of(queue.database, client)["last_delivered_at"] == START_MS + 2000
    assert queue.claim() == []


def test_events_follow_each_other_oldest_first(queue: Queue, client: int) -> None:
    jtis = [queue.add(client) for _ in range(3)]
    (delivery,) = queue.claim()
    sent = []
    following: Delivery | None = delivery
    while following is not None:
        sent.append(following.jti)
        following = queue.settle(following, TAKEN).following
    assert sent == jtis


def test_a_receiver_is_held_by_one_at_a_time(queue: Queue, client: int) -> None:
    queue.add(client)
    queue.add(client)
    (delivery,) = queue.claim(ONE)
    assert queue.claim(OTHER) == []
    assert queue.claim(ONE) == []
    queue.settle(delivery, TAKEN, goes_on=False)
    assert len(queue.claim(OTHER)) == 1


def test_a_holder_that_died_is_followed_by_another_with_the_same_bytes(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    jti = queue.add(client)
    (lost,) = queue.claim(ONE)
    assert queue.database.read_now(push_queue.seconds_until_due) == 60
    clock.advance(59.999)
    assert queue.claim(OTHER) == []
    clock.advance(0.001)
    (again,) = queue.claim(OTHER)
    assert (again.jti, again.token) == (jti, lost.token)


def test_who_comes_too_late_still_acknowledges_and_changes_nothing_else(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    jti, following = queue.add(client), queue.add(client)
    (late,) = queue.claim(ONE)
    clock.advance(61)
    queue.claim(OTHER)
    before = receiver_of(queue.database, client)
    assert queue.settle(late, TAKEN, ONE) == Settled("delivered", 0, None)
    assert event_of(queue.database, jti)["status"] == "acknowledged"
    assert receiver_of(queue.database, client) == before
    assert event_of(queue.database, following)["push_attempts"] == 0


def test_who_comes_too_late_counts_no_failure(queue: Queue, client: int, clock: ManualClock) -> None:
    queue.add(client)
    (late,) = queue.claim(ONE)
    clock.advance(61)
    queue.claim(OTHER)
    before = receiver_of(queue.database, client)
    queue.settle(late, DOWN, ONE)
    assert receiver_of(queue.database, client) == before


def test_what_a_poll_acknowledged_is_not_sent(queue: Queue, client: int) -> None:
    first, second = queue.add(client), queue.add(client)
    acknowledge(queue.database, first)
    (delivery,) = queue.claim()
    assert delivery.jti == second


def test_what_a_poll_acknowledged_while_it_was_sent_stays_acknowledged(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (delivery,) = queue.claim()
    acknowledge(queue.database, jti)
    queue.settle(delivery, DOWN)
    event = event_of(queue.database, jti)
    assert (event["status"], event["push_attempts"], event["push_at"]) == ("acknowledged", 0, None)


def test_a_failure_keeps_the_receivers_events_in_their_order(queue: Queue, client: int, clock: ManualClock) -> None:
    first, _second = queue.add(client), queue.add(client)
    assert queue.fail() == Settled("failed", 0, None)
    assert queue.claim() == []
    assert queue.database.read_now(push_queue.seconds_until_due) == 1
    clock.advance(1)
    (again,) = queue.claim()
    assert (again.jti, again.attempts) == (first, 1)
    event = event_of(queue.database, first)
    assert (event["push_attempts"], event["push_problem"], event["status"]) == (1, "no answer", "ready")


def test_waits_grow_until_the_circuit_is_open_and_success_closes_it(
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
    (probe,) = queue.claim()
    queue.settle(probe, TAKEN)
    assert queue.database.read_now(push_queue.open_circuits, 3) == 0
    state = receiver_of(queue.database, client)
    assert (state["failures"], state["retry_at"], state["problem"]) == (0, 0, None)


def test_chance_spreads_the_waits(queue: Queue, client: int) -> None:
    queue.add(client)
    (sent,) = queue.claim()
    queue.settle(sent, DOWN, chance=1.0)
    assert receiver_of(queue.database, client)["retry_at"] == START_MS + 1500


def test_an_event_is_given_up_after_its_tries_and_stays_for_polls(
    queue: Queue, client: int, clock: ManualClock
) -> None:
    first, second = queue.add(client), queue.add(client)
    given_up = []
    for _ in range(4):
        given_up.append(queue.fail().given_up)
        clock.now_ms = receiver_of(queue.database, client)["retry_at"]
    assert given_up == [0, 0, 0, 1]
    event = event_of(queue.database, first)
    assert (event["status"], event["push_at"], event["push_attempts"]) == ("ready", None, 4)
    (delivery,) = queue.claim()
    assert delivery.jti == second


def test_whatever_waited_too_long_is_given_up_with_a_failure(queue: Queue, client: int, clock: ManualClock) -> None:
    old = [queue.add(client) for _ in range(3)]
    clock.advance(999)
    young = queue.add(client)
    clock.advance(1)
    assert queue.fail().given_up == 3
    assert [event_of(queue.database, jti)["push_at"] for jti in old] == [None] * 3
    assert event_of(queue.database, young)["push_at"] is not None


def test_a_refused_event_waits_alone(queue: Queue, client: int, clock: ManualClock) -> None:
    refused, other = queue.add(client), queue.add(client)
    (sent,) = queue.claim()
    settled = queue.settle(sent, REFUSED)
    assert settled.outcome == "refused"
    assert settled.following is not None
    assert settled.following.jti == other
    queue.settle(settled.following, TAKEN)
    assert queue.claim() == []
    clock.advance(1)
    (again,) = queue.claim()
    assert (again.jti, again.attempts) == (refused, 1)
    assert receiver_of(queue.database, client)["failures"] == 0


def test_a_refused_event_is_given_up_after_its_tries(queue: Queue, client: int, clock: ManualClock) -> None:
    jti = queue.add(client)
    outcomes = []
    for _ in range(4):
        outcomes.append(queue.fail(result=REFUSED).given_up)
        clock.advance(60)
    assert outcomes == [0, 0, 0, 1]
    assert event_of(queue.database, jti)["status"] == "ready"
    assert queue.claim() == []


@pytest.mark.parametrize(
    ("body", "recorded"),
    [
        (b'{"err":"invalid_key","description":"unknown kid"}', ("errored", "invalid_key", "unknown kid")),
        (b'{"err":"invalid_key"}', ("errored", "invalid_key", "invalid_key")),
        (b'{"err":""}', ("ready", None, None)),
        (b'{"err":"a\\u0000"}', ("ready", None, None)),
        (b'{"err":1}', ("ready", None, None)),
        (b"[" * 10_000, ("ready", None, None)),
        (b"\xff", ("ready", None, None)),
        (b"", ("ready", None, None)),
    ],
)
def test_what_a_receiver_of_shared_signals_says_is_kept_as_if_polled(
    queue: Queue, body: bytes, recorded: tuple[str, str | None, str | None]
) -> None:
    client = queue.add_receiver(profile="shared-signals")
    jti = queue.add(client, profile="shared-signals", stream=1)
    (sent,) = queue.claim()
    queue.settle(sent, Result(400, "it answered 400", body))
    event = event_of(queue.database, jti)
    assert (event["status"], event["err"], event["err_description"]) == recorded


def test_what_a_receiver_of_open_banking_says_does_not_end_its_tries(queue: Queue, client: int) -> None:
    jti = queue.add(client)
    (sent,) = queue.claim()
    queue.settle(sent, Result(400, "it answered 400", b'{"err":"invalid_key","description":"x"}'))
    assert event_of(queue.database, jti)["status"] == "ready"


def test_one_that_is_to_be_signed_is_not_overtaken(queue: Queue, client: int) -> None:
    unsigned = queue.add(client, status="unsigned")
    queue.add(client)
    assert queue.claim() == []
    sign(queue.database, unsigned)
    (delivery,) = queue.claim()
    assert delivery.jti == unsigned


def test_nothing_is_sent_to_who_is_suspended_or_held(queue: Queue, client: int) -> None:
    queue.add(client)
    suspend(queue.database, client)
    assert queue.claim() == []
    suspend(queue.database, client, None)
    queue.database.write_now(receivers.hold, client, "open-banking", 0)
    assert queue.claim() == []
    queue.database.write_now(receivers.let_go, client, "open-banking")
    assert len(queue.claim()) == 1


def test_who_is_held_is_sent_what_was_left_until_then(queue: Queue, client: int) -> None:
    first, last, beyond = (queue.add(client) for _ in range(3))
    held_at = event_of(queue.database, last)["id"]
    queue.database.write_now(receivers.hold, client, "open-banking", held_at)
    (delivery,) = queue.claim()
    following = queue.settle(delivery, TAKEN).following
    assert following is not None
    assert [delivery.jti, following.jti] == [first, last]
    assert queue.settle(following, TAKEN).following is None
    assert queue.claim() == []
    queue.database.write_now(receivers.let_go, client, "open-banking")
    assert [each.jti for each in queue.claim()] == [beyond]


@pytest.mark.parametrize("stop", ["suspend", "hold", "move", "remove"])
def test_what_stops_a_receiver_stops_it_after_the_event_on_its_way(queue: Queue, client: int, stop: str) -> None:
    queue.add(client)
    queue.add(client)
    (sent,) = queue.claim()
    match stop:
        case "suspend":
            suspend(queue.database, client)
        case "hold":
            queue.database.write_now(receivers.hold, client, "open-banking", 0)
        case "move":
            queue.database.write_now(receivers.put, client, "open-banking", "https://new.example/")
        case "remove":
            queue.database.write_now(receivers.remove, client, "open-banking")
    assert queue.settle(sent, TAKEN) == Settled("delivered", 0, None)


def test_failures_at_an_address_are_not_those_of_the_next(queue: Queue, client: int) -> None:
    queue.add(client)
    (sent,) = queue.claim()
    queue.database.write_now(receivers.put, client, "open-banking", "https://new.example/")
    queue.settle(sent, DOWN)
    assert receiver_of(queue.database, client)["failures"] == 0
    (again,) = queue.claim()
    assert again.url == "https://new.example/"


def test_receivers_take_turns(queue: Queue, clock: ManualClock) -> None:
    busy, quiet = queue.add_receiver(), queue.add_receiver()
    for _ in range(3):
        queue.add(busy)
    (sent,) = queue.claim(limit=1)
    clock.advance(1)
    queue.add(quiet)
    queue.settle(sent, TAKEN, goes_on=False)
    (following,) = queue.claim(limit=1)
    assert following.client == quiet


def test_no_more_receivers_are_claimed_than_asked_for(queue: Queue) -> None:
    for _ in range(3):
        queue.add(queue.add_receiver())
    assert len(queue.claim(limit=2)) == 2
    assert len(queue.claim(limit=2)) == 1


def test_nothing_waits_for_dead_ones_when_nobody_else_can_be_alive(queue: Queue, client: int) -> None:
    queue.add(client)
    queue.claim(ONE)
    assert queue.database.write_now(push_queue.release_all) == 1
    assert len(queue.claim(OTHER)) == 1


def test_nothing_is_due_where_nothing_waits(queue: Queue, client: int) -> None:
    assert queue.database.read_now(push_queue.seconds_until_due) is None
    assert queue.claim() == []
