"""Events of two nodes on one PostgreSQL: which of two concurrent transactions must wait for the other."""

import dataclasses
from collections.abc import Iterator

import pytest

from restante.database.connection import Connection
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxPollRequest
from restante.events.publishing import publishing
from restante.events.signing import event_keys
from tests.events import inbox_fixture
from tests.events.default_options import inbox_options
from tests.events.publish_fixture import MASTER, event_request
from tests.faults.nodes.two_transactions import TwoTransactions, committed

DAY_SECONDS = 86_400


@pytest.fixture
def transactions(postgres_url: str) -> Iterator[TwoTransactions]:
    transactions = TwoTransactions(postgres_url)
    yield transactions
    transactions.close()


def test_events_of_a_client_are_numbered_in_commit_order(transactions: TwoTransactions) -> None:
    """A delivered event implies that all events before it were delivered: none may appear before it later."""
    client_id = committed(transactions.second, inbox_fixture.add_client, ()).client_id
    _, _, has_waited = transactions.run_both(
        publishing.publish, (event_request(client_id),), (event_request(client_id),)
    )
    assert has_waited


def test_publishing_for_all_waits_for_publishing_for_one(transactions: TwoTransactions) -> None:
    client_ids = [committed(transactions.second, inbox_fixture.add_client, ()).client_id for _ in range(100)]
    _, published, has_waited = transactions.run_both(
        publishing.publish, (event_request(client_ids[70]),), (event_request(),)
    )
    assert has_waited
    assert len(published) == 100


def test_event_in_its_delivery_window_is_given_to_one_of_two_polls(transactions: TwoTransactions) -> None:
    client = committed(transactions.second, inbox_fixture.add_client, ()).id
    committed(transactions.second, inbox_fixture.put_ready, (client, "a", "b"))
    options = inbox_options(redelivery_after_ms=10_000)
    both = (options, InboxPollRequest(client, 1))
    first, second, _ = transactions.run_both(inbox.poll_inbox, both, both)
    assert [list(result.sets) for result in (first, second)] == [["a"], ["b"]]


def test_concurrent_first_keys_give_one_key(transactions: TwoTransactions) -> None:
    keys = [event_keys.generate(MASTER, "ES256") for _ in range(2)]
    first, second, _ = transactions.run_both(event_keys.store_first, (keys[0],), (keys[1],))
    assert first.kid == second.kid == keys[0].kid


def test_concurrent_rotations_of_an_old_key_rotate_once(transactions: TwoTransactions) -> None:
    committed(transactions.first, _add_old_key, ())
    keys = [event_keys.generate(MASTER, "ES256") for _ in range(2)]
    ages = (90, DAY_SECONDS, DAY_SECONDS)
    first, second, _ = transactions.run_both(event_keys.rotate_if_due, (keys[0], *ages), (keys[1], *ages))
    assert (first, second) == (True, False)


def _add_old_key(conn: Connection) -> None:
    key = dataclasses.asdict(event_keys.generate(MASTER, "ES256"))
    long_ago = conn.now_ms - 100 * DAY_SECONDS * 1000
    conn.run(event_keys.SQL.insert_key, **key, now_ms=long_ago, signs_from=long_ago)
