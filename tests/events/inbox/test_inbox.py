"""The inbox of each client, on a real database: choosing, acknowledging, errors, redelivery."""

import pytest

from restante.core.errors import NotAuthenticated
from restante.core.events.poll_acks import Fault, verdicts_of
from restante.database.database import Database
from restante.database.queries import Query
from restante.database.writer.batching import Failed
from restante.events.inbox import inbox
from restante.events.inbox.inbox import (
    SHARED_SIGNALS,
    InboxChanged,
    InboxOptions,
    InboxPollRequest,
    InboxPollResult,
    NewEvent,
    SignedEvent,
)
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.default_options import inbox_options
from tests.events.inbox_fixture import PollingClient, token_of
from tests.events.publish_fixture import add_stream

PLAIN = inbox_options()
WINDOW = inbox_options(redelivery_after_ms=10_000)
ERRORS_AGAIN = inbox_options(redeliver_errored=True)
WRONG = Fault("jwtIss", "Issuer is invalid or could not be verified")

_DELIVERIES = Query(
    "deliveries", "SELECT through, sent_at FROM event_hand_outs WHERE client = :client ORDER BY through"
)
_ROW = Query("row", "SELECT * FROM event_inbox WHERE jti = :jti")


def poll(
    database: Database,
    client: PollingClient,
    limit: int = 100,
    ack: tuple[str, ...] = (),
    errs: tuple[str, ...] = (),
    options: InboxOptions = PLAIN,
    profile: str = inbox.OPEN_BANKING,
) -> InboxPollResult:
    request = InboxPollRequest(client.id, limit, verdicts_of(ack, dict.fromkeys(errs, WRONG)), profile)
    return database.write_now(inbox.poll_inbox, options, request)


def jtis(result: InboxPollResult) -> list[str]:
    return list(result.sets)


def test_empty_inbox_has_no_events(database: Database, client: PollingClient) -> None:
    assert poll(database, client) == InboxPollResult({}, False, START_MS)


def test_events_are_delivered_oldest_first_with_their_tokens(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "c", "a", "b")
    result = poll(database, client)
    assert list(result.sets.items()) == [(jti, token_of(jti)) for jti in "cab"]
    assert not result.has_more


def test_result_reports_more_events_than_the_limit(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    assert [poll(database, client, limit)[:2] for limit in (0, 2, 3)] == [
        ({}, True),
        ({"a": token_of("a"), "b": token_of("b")}, True),
        ({jti: token_of(jti) for jti in "abc"}, False),
    ]


def test_result_is_bounded_in_bytes(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    size = len(token_of("a")) + 1
    result = poll(database, client, options=inbox_options(response_bytes_max=2 * size))
    assert (jtis(result), result.has_more) == (["a", "b"], True)
    result = poll(database, client, options=inbox_options(response_bytes_max=1))
    assert (jtis(result), result.has_more) == (["a"], True)


def test_acknowledged_event_is_not_in_the_same_result(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b")
    result = poll(database, client, ack=("a",))
    assert (jtis(result), result.acknowledged) == (["b"], 1)
    assert inbox_fixture.status_of(database, "a") == "acknowledged"


def test_unacknowledged_event_is_redelivered_with_the_same_bytes(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b")
    assert poll(database, client).sets == poll(database, client).sets


def test_errored_event_is_kept_and_not_redelivered(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b")
    result = poll(database, client, errs=("a",))
    assert (jtis(result), result.has_more, result.errored) == (["b"], False, 1)
    row = database.read_now(lambda conn: conn.one(_ROW, jti="a"))
    assert row is not None
    assert [row[name] for name in ("status", "err", "err_description", "errored_at", "finished_at")] == [
        "errored",
        *WRONG,
        START_MS,
        None,
    ]


def test_error_wins_over_acknowledgement_of_the_same_event(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    poll(database, client, ack=("a",), errs=("a",))
    assert inbox_fixture.status_of(database, "a") == "errored"


def test_errored_event_can_be_acknowledged_later(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    poll(database, client, errs=("a",))
    poll(database, client, ack=("a",))
    assert inbox_fixture.status_of(database, "a") == "acknowledged"


def test_acknowledged_event_cannot_become_errored(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    poll(database, client, ack=("a",))
    assert poll(database, client, errs=("a",)).errored == 0
    assert inbox_fixture.status_of(database, "a") == "acknowledged"


def test_released_event_is_redelivered(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    poll(database, client, errs=("a",))
    database.write_now(inbox_fixture.release, client.id, "a")
    assert jtis(poll(database, client)) == ["a"]


def test_errored_events_are_redelivered_if_configured_but_not_in_the_same_result(
    database: Database, client: PollingClient
) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    result = poll(database, client, errs=("b",), options=ERRORS_AGAIN)
    assert (jtis(result), result.has_more) == (["a", "c"], True)
    result = poll(database, client, ack=("a",), options=ERRORS_AGAIN)
    assert (jtis(result), result.has_more) == (["b", "c"], False)
    assert poll(database, client, 1, options=ERRORS_AGAIN).has_more


def test_redelivered_errored_event_respects_its_window(database: Database, client: PollingClient) -> None:
    options = inbox_options(redelivery_after_ms=10_000, redeliver_errored=True)
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    poll(database, client, options=options)
    result = poll(database, client, errs=("a",), options=options)
    assert (jtis(result), result.has_more, result.next_visible_ms) == ([], True, START_MS + 10_000)


def test_unknown_and_foreign_ids_change_nothing(database: Database, client: PollingClient) -> None:
    other = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, other.id, "theirs")
    database.write_now(inbox_fixture.put_ready, client.id, "ours")
    with_foreign_ids = poll(database, client, ack=("theirs", "unknown"), errs=("theirs2",))
    assert with_foreign_ids == poll(database, client)
    assert poll(database, client, errs=("theirs",)) == with_foreign_ids
    assert inbox_fixture.status_of(database, "theirs") == "ready"


def test_no_event_overtakes_an_unsigned_one(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    database.write_now(inbox_fixture.put_unsigned, client.id, "b")
    database.write_now(inbox_fixture.put_ready, client.id, "c")
    result = poll(database, client)
    assert (jtis(result), result.has_more) == (["a"], True)
    database.write_now(inbox_fixture.sign, client.id, "b")
    assert jtis(poll(database, client)) == ["a", "b", "c"]


def test_unsigned_event_cannot_be_acknowledged(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_unsigned, client.id, "a")
    assert poll(database, client, ack=("a",)).acknowledged == 0
    assert poll(database, client, errs=("a",)).errored == 0


def test_signed_event_keeps_its_bytes(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    database.write_now(inbox_fixture.sign, client.id, "a", "another token")
    assert poll(database, client).sets == {"a": token_of("a")}


def test_event_is_not_redelivered_within_its_window(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    assert jtis(poll(database, client, 2, options=WINDOW)) == ["a", "b"]
    second = poll(database, client, 2, options=WINDOW)
    assert (jtis(second), second.has_more) == (["c"], True)
    third = poll(database, client, options=WINDOW)
    assert (jtis(third), third.has_more, third.next_visible_ms) == ([], True, START_MS + 10_000)
    clock.advance(10)
    assert jtis(poll(database, client, options=WINDOW)) == ["a", "b", "c"]


def test_polls_in_one_transaction_respect_the_window(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    requests = [InboxPollRequest(client.id, 2), None, InboxPollRequest(client.id, 2), InboxPollRequest(-1, 2)]
    first, disconnected, second, unknown = database.write_now(inbox.poll_inboxes, WINDOW, requests)
    assert isinstance(first, InboxPollResult)
    assert isinstance(second, InboxPollResult)
    assert (jtis(first), jtis(second), disconnected) == (["a", "b"], ["c"], None)
    assert isinstance(unknown, Failed)
    assert isinstance(unknown.error, NotAuthenticated)


def test_suspended_client_is_refused_and_keeps_its_events(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    database.write_now(inbox_fixture.suspend, client.id)
    for ack in ((), ("a",)):
        with pytest.raises(NotAuthenticated):
            poll(database, client, ack=ack)
    with pytest.raises(NotAuthenticated):
        database.read_now(inbox.read_inbox, PLAIN, InboxPollRequest(client.id, 1))
    assert inbox_fixture.status_of(database, "a") == "ready"


def test_each_profile_has_its_own_events(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    database.write_now(inbox_fixture.put_ready, client.id, "s", profile=SHARED_SIGNALS)
    assert jtis(poll(database, client)) == ["a"]
    assert jtis(poll(database, client, profile=SHARED_SIGNALS)) == []
    add_stream(database, client.id, "[]")
    assert jtis(poll(database, client, profile=SHARED_SIGNALS)) == ["s"]


def delivery_times(database: Database, client: PollingClient) -> list[int]:
    return [row["sent_at"] for row in database.read_now(lambda conn: conn.all(_DELIVERIES, client=client.id))]


def test_first_delivery_of_each_position_is_recorded_once(
    database: Database, client: PollingClient, clock: ManualClock
) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    poll(database, client, 1)
    clock.advance(1)
    poll(database, client, 1)
    poll(database, client, 3)
    clock.advance(1)
    poll(database, client, 3)
    assert delivery_times(database, client) == [START_MS, START_MS + 1000]


def test_snapshot_read_returns_only_events_that_were_sent_before(database: Database, client: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    assert database.read_now(inbox.read_inbox, PLAIN, InboxPollRequest(client.id, 2)) is None
    sent = poll(database, client, 2)
    assert database.read_now(inbox.read_inbox, PLAIN, InboxPollRequest(client.id, 2)) == sent
    assert database.read_now(inbox.read_inbox, PLAIN, InboxPollRequest(client.id, 3)) is None


@pytest.mark.parametrize("options", [PLAIN, WINDOW])
def test_snapshot_read_is_refused_where_something_changes(
    database: Database, client: PollingClient, options: InboxOptions
) -> None:
    verdicts = verdicts_of(["a"] if options is PLAIN else [], {})
    assert database.read_now(inbox.read_inbox, options, InboxPollRequest(client.id, 2, verdicts)) is None


def id_of(database: Database, jti: str) -> int:
    row = database.read_now(lambda conn: conn.one(_ROW, jti=jti))
    assert row is not None
    return int(row["id"])


def test_new_events_are_stored_unsigned_in_order(database: Database, client: PollingClient) -> None:
    """The ids are not in order, each event has its own text, and one text has characters that need escapes."""
    special = '{"jti":"b","a":"\\u0000 \\\\ \\" \u2028 [,]"}'
    texts = {"c": '{"jti":"c"}', "b": special, "a": '{"jti":"a"}'}
    database.write_now(inbox.add_events, [NewEvent(client.id, jti, "txn", "[]", text) for jti, text in texts.items()])
    ids = [id_of(database, jti) for jti in texts]
    assert ids == sorted(ids)
    assert [database.read_now(inbox.text_of, client.id, event) for event in ids] == list(texts.values())
    assert database.read_now(inbox.text_of, client.id, ids[-1] + 1) is None
    assert {inbox_fixture.status_of(database, jti) for jti in texts} == {"unsigned"}


def test_many_events_are_added_in_several_statements(
    database: Database, client: PollingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "STATEMENT_CHARACTERS_MAX", 100)
    sizes = [10, 90, 1, 300, 99, 100, 1]
    events = [NewEvent(client.id, f"j{place}", "txn", "[]", "x" * size) for place, size in enumerate(sizes)]
    assert [[len(event.claims) for event in piece] for piece in inbox._in_parts(events)] == [
        [10, 90],
        [1],
        [300],
        [99],
        [100],
        [1],
    ]
    database.write_now(inbox.add_events, events)
    ids = [id_of(database, event.jti) for event in events]
    assert ids == sorted(ids)


def test_empty_list_adds_nothing(database: Database) -> None:
    database.write_now(inbox.add_events, [])


def test_ready_event_adds_a_commit_event(database: Database, client: PollingClient) -> None:
    events: list[object] = []
    database.on_commit(events.extend)
    [event] = database.write_now(inbox_fixture.put_unsigned, client.id, "a")
    assert events == []
    database.write_now(inbox.make_ready, [SignedEvent(event, client.id, "token", "key", push_at=5)])
    assert events == [InboxChanged(client.id)]
    row = database.read_now(lambda conn: conn.one(_ROW, jti="a"))
    assert row is not None
    assert (row["status"], row["kid"], row["push_at"]) == ("ready", "key", 5)
