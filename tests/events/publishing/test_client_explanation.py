"""Why a client has not got its events: the first reason that applies."""

import pytest

from restante.core.errors import NotFound
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.events.clients.refusals import Refusals
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxPollRequest
from restante.events.publishing import client_explanation
from restante.events.push import receivers
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.default_options import inbox_options
from tests.events.inbox_fixture import PollingClient

FAIL_PUSH = Query(
    "fail_push",
    "UPDATE event_receivers SET failures = 3, problem = 'HTTP 500', last_tried_at = :now_ms WHERE client = :client",
)
MAKE_DUE = Query("make_due", "UPDATE event_inbox SET push_at = 0 WHERE client = :client")


@pytest.fixture
def client(database: Database) -> PollingClient:
    return database.write_now(inbox_fixture.add_client, "shop")


def why(database: Database, polled_ms: int | None = None) -> tuple[str, str]:
    explained = database.read_now(client_explanation.explain, "shop", polled_ms)
    return explained.waiting_for, explained.sentence


def test_client_that_never_polled(database: Database, client: PollingClient) -> None:
    at = iso_precise(START_MS)
    assert why(database) == ("first_poll", f"It was registered at {at} and has never polled.")
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b")
    assert why(database) == ("first_poll", f"It was registered at {at} and has never polled; 2 of its events wait.")


def test_events_wait_for_a_poll_and_for_acknowledgement(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    assert why(database, START_MS)[0] == "nothing"
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b")
    assert why(database, START_MS)[0] == "poll"
    clock.advance(5)
    database.write_now(inbox_fixture.deliver, client.id, "a")
    clock.advance(5)
    waiting_for, sentence = why(database, START_MS)
    assert waiting_for == "acknowledgement"
    assert (
        f"It has got 1 events that it has not acknowledged, the first since {iso_precise(START_MS + 5000)}" in sentence
    )
    for jti in ("a", "b"):
        database.write_now(inbox_fixture.acknowledge, jti)
    assert why(database, START_MS)[0] == "nothing"


def test_delivery_window_is_named_with_its_end(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    options = inbox_options(redelivery_after_ms=60_000)
    database.write_now(inbox.poll_inbox, options, InboxPollRequest(client.id, 10))
    explained = database.read_now(client_explanation.explain, "shop", START_MS)
    assert (explained.waiting_for, explained.until) == ("delivery_window", iso_precise(START_MS + 60_000))


def test_errored_events_are_named_with_their_reason(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    database.write_now(inbox_fixture.report_errors, client.id, {"a": ("jwtIss", "not ours")})
    waiting_for, sentence = why(database, START_MS)
    assert waiting_for == "errored_events"
    assert "It reported that it cannot use 1 events, most often jwtIss: not ours." in sentence


def test_unsigned_events_are_named_after_a_while(database: Database, client: PollingClient, clock: ManualClock) -> None:
    database.write_now(inbox_fixture.put_unsigned, client.id, "a")
    assert why(database, START_MS)[0] == "poll"
    clock.advance(61)
    assert why(database, START_MS)[0] == "signing"


async def test_refused_client_is_told_apart_from_one_that_polls(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    refusals = Refusals(database)
    refusals.record("shop", InvalidClient(reason="secret"), None)
    await refusals.write()
    waiting_for, sentence = why(database)
    assert (waiting_for, "(secret, 1 times): the secret is wrong" in sentence) == ("access", True)
    assert why(database, START_MS + 5000)[0] == "nothing"


def test_failing_receiver_is_named(database: Database, client: PollingClient) -> None:
    def fail(conn: Connection) -> None:
        inbox_fixture.put_ready(conn, client.id, "a")
        receivers.set_receiver(conn, client.id, "open-banking", "https://shop.example/hook")
        conn.run(MAKE_DUE, client=client.id)
        conn.run(FAIL_PUSH, client=client.id, now_ms=conn.now_ms)

    database.write_now(fail)
    waiting_for, sentence = why(database)
    assert (waiting_for, "3 failures in a row" in sentence, "HTTP 500" in sentence) == ("receiver", True, True)


def test_suspended_and_missing_client(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.suspend, client.id)
    assert why(database)[0] == "resumption"
    with pytest.raises(NotFound):
        database.read_now(client_explanation.explain, "nobody")
