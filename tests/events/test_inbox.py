"""The inbox of each client, on a database of its own: choosing, acknowledging, errors, redelivery."""

import pytest

from restante.core.acknowledgement import Fault, verdicts_of
from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.database.hot import Failed
from restante.database.queries import Query
from restante.events import inbox
from restante.events.inbox import SHARED_SIGNALS, Handed, InboxChanged, InboxOptions, NewEvent, SignedEvent, Wish
from tests.conftest import START_MS, ManualClock
from tests.events import bank
from tests.events.bank import Customer, token_of
from tests.events.publishers import add_stream

PLAIN = InboxOptions()
WINDOW = InboxOptions(redelivery_after_ms=10_000)
ERRORS_AGAIN = InboxOptions(redeliver_errored=True)
WRONG = Fault("jwtIss", "Issuer is invalid or could not be verified")

_HAND_OUTS = Query("hand_outs", "SELECT through, sent_at FROM event_hand_outs WHERE client = :client ORDER BY through")
_ROW = Query("row", "SELECT * FROM event_inbox WHERE jti = :jti")


@pytest.fixture
def client(database: Database) -> Customer:
    return database.write_now(bank.add_client)


def poll(
    database: Database,
    client: Customer,
    limit: int = 100,
    ack: tuple[str, ...] = (),
    errs: tuple[str, ...] = (),
    options: InboxOptions = PLAIN,
    profile: str = inbox.OPEN_BANKING,
) -> Handed:
    wish = Wish(client.id, limit, verdicts_of(ack, dict.fromkeys(errs, WRONG)), profile)
    return database.write_now(inbox.take, options, wish)


def jtis(handed: Handed) -> list[str]:
    return list(handed.sets)


def test_an_empty_inbox_gives_nothing(database: Database, client: Customer) -> None:
    assert poll(database, client) == Handed({}, False, START_MS)


def test_events_come_oldest_first_with_their_tokens(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "c", "a", "b")
    handed = poll(database, client)
    assert list(handed.sets.items()) == [(jti, token_of(jti)) for jti in "cab"]
    assert not handed.more


def test_more_than_are_wanted_are_announced(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    assert [poll(database, client, limit)[:2] for limit in (0, 2, 3)] == [
        ({}, True),
        ({"a": token_of("a"), "b": token_of("b")}, True),
        ({jti: token_of(jti) for jti in "abc"}, False),
    ]


def test_an_answer_is_bounded_in_bytes(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    size = len(token_of("a")) + 1
    handed = poll(database, client, options=InboxOptions(answer_bytes_max=2 * size))
    assert (jtis(handed), handed.more) == (["a", "b"], True)
    handed = poll(database, client, options=InboxOptions(answer_bytes_max=1))
    assert (jtis(handed), handed.more) == (["a"], True)


def test_what_is_acknowledged_is_not_in_the_same_answer(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b")
    handed = poll(database, client, ack=("a",))
    assert (jtis(handed), handed.acknowledged) == (["b"], 1)
    assert bank.status_of(database, "a") == "acknowledged"


def test_what_is_not_acknowledged_comes_again_to_the_byte(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b")
    assert poll(database, client).sets == poll(database, client).sets


def test_an_error_is_kept_and_the_event_is_not_sent_again(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b")
    handed = poll(database, client, errs=("a",))
    assert (jtis(handed), handed.more, handed.errored) == (["b"], False, 1)
    row = database.read_now(lambda conn: conn.one(_ROW, jti="a"))
    assert row is not None
    assert [row[name] for name in ("status", "err", "err_description", "errored_at", "finished_at")] == [
        "errored",
        *WRONG,
        START_MS,
        None,
    ]


def test_of_an_event_called_right_and_wrong_the_error_counts(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    poll(database, client, ack=("a",), errs=("a",))
    assert bank.status_of(database, "a") == "errored"


def test_what_was_in_error_can_still_be_acknowledged(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    poll(database, client, errs=("a",))
    poll(database, client, ack=("a",))
    assert bank.status_of(database, "a") == "acknowledged"


def test_what_was_acknowledged_is_never_in_error(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    poll(database, client, ack=("a",))
    assert poll(database, client, errs=("a",)).errored == 0
    assert bank.status_of(database, "a") == "acknowledged"


def test_a_released_event_comes_again(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    poll(database, client, errs=("a",))
    database.write_now(bank.release, client.id, "a")
    assert jtis(poll(database, client)) == ["a"]


def test_errors_come_again_where_so_configured_but_not_in_the_same_answer(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    handed = poll(database, client, errs=("b",), options=ERRORS_AGAIN)
    assert (jtis(handed), handed.more) == (["a", "c"], True)
    handed = poll(database, client, ack=("a",), options=ERRORS_AGAIN)
    assert (jtis(handed), handed.more) == (["b", "c"], False)
    assert poll(database, client, 1, options=ERRORS_AGAIN).more


def test_errors_that_come_again_keep_to_their_window(database: Database, client: Customer) -> None:
    options = InboxOptions(redelivery_after_ms=10_000, redeliver_errored=True)
    database.write_now(bank.put_ready, client.id, "a")
    poll(database, client, options=options)
    handed = poll(database, client, errs=("a",), options=options)
    assert (jtis(handed), handed.more, handed.look_again_ms) == ([], True, START_MS + 10_000)


def test_ids_that_are_unknown_or_anothers_change_nothing(database: Database, client: Customer) -> None:
    other = database.write_now(bank.add_client)
    database.write_now(bank.put_ready, other.id, "theirs")
    database.write_now(bank.put_ready, client.id, "ours")
    by_stranger = poll(database, client, ack=("theirs", "nobodys"), errs=("theirs2",))
    assert by_stranger == poll(database, client)
    assert poll(database, client, errs=("theirs",)) == by_stranger
    assert bank.status_of(database, "theirs") == "ready"


def test_none_overtakes_one_that_is_to_be_signed(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    database.write_now(bank.put_unsigned, client.id, "b")
    database.write_now(bank.put_ready, client.id, "c")
    handed = poll(database, client)
    assert (jtis(handed), handed.more) == (["a"], True)
    database.write_now(bank.sign, client.id, "b")
    assert jtis(poll(database, client)) == ["a", "b", "c"]


def test_what_is_to_be_signed_cannot_be_acknowledged(database: Database, client: Customer) -> None:
    database.write_now(bank.put_unsigned, client.id, "a")
    assert poll(database, client, ack=("a",)).acknowledged == 0
    assert poll(database, client, errs=("a",)).errored == 0


def test_a_signed_event_keeps_its_bytes(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    database.write_now(bank.sign, client.id, "a", "another token")
    assert poll(database, client).sets == {"a": token_of("a")}


def test_within_a_window_nobody_else_is_handed_the_same(
    database: Database, client: Customer, clock: ManualClock
) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    assert jtis(poll(database, client, 2, options=WINDOW)) == ["a", "b"]
    second = poll(database, client, 2, options=WINDOW)
    assert (jtis(second), second.more) == (["c"], True)
    third = poll(database, client, options=WINDOW)
    assert (jtis(third), third.more, third.look_again_ms) == ([], True, START_MS + 10_000)
    clock.advance(10)
    assert jtis(poll(database, client, options=WINDOW)) == ["a", "b", "c"]


def test_many_polls_in_one_transaction_keep_to_the_window(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    wishes = [Wish(client.id, 2), None, Wish(client.id, 2), Wish(-1, 2)]
    first, gone, second, stranger = database.write_now(inbox.take_many, WINDOW, wishes)
    assert isinstance(first, Handed)
    assert isinstance(second, Handed)
    assert (jtis(first), jtis(second), gone) == (["a", "b"], ["c"], None)
    assert isinstance(stranger, Failed)
    assert isinstance(stranger.error, NotAuthenticated)


def test_a_suspended_client_is_handed_nothing_and_its_events_are_kept(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    database.write_now(bank.suspend, client.id)
    for ack in ((), ("a",)):
        with pytest.raises(NotAuthenticated):
            poll(database, client, ack=ack)
    with pytest.raises(NotAuthenticated):
        database.read_now(inbox.look, PLAIN, Wish(client.id, 1))
    assert bank.status_of(database, "a") == "ready"


def test_each_profile_has_its_own_events(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a")
    database.write_now(bank.put_ready, client.id, "s", profile=SHARED_SIGNALS)
    assert jtis(poll(database, client)) == ["a"]
    assert jtis(poll(database, client, profile=SHARED_SIGNALS)) == []
    add_stream(database, client.id, "[]")
    assert jtis(poll(database, client, profile=SHARED_SIGNALS)) == ["s"]


def hand_outs(database: Database, client: Customer) -> list[int]:
    return [row["sent_at"] for row in database.read_now(lambda conn: conn.all(_HAND_OUTS, client=client.id))]


def test_what_was_sent_first_when_is_written_down_once(
    database: Database, client: Customer, clock: ManualClock
) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    poll(database, client, 1)
    clock.advance(1)
    poll(database, client, 1)
    poll(database, client, 3)
    clock.advance(1)
    poll(database, client, 3)
    assert hand_outs(database, client) == [START_MS, START_MS + 1000]


def test_a_look_hands_out_again_what_was_handed_out_before(database: Database, client: Customer) -> None:
    database.write_now(bank.put_ready, client.id, "a", "b", "c")
    assert database.read_now(inbox.look, PLAIN, Wish(client.id, 2)) is None
    sent = poll(database, client, 2)
    assert database.read_now(inbox.look, PLAIN, Wish(client.id, 2)) == sent
    assert database.read_now(inbox.look, PLAIN, Wish(client.id, 3)) is None


@pytest.mark.parametrize("options", [PLAIN, WINDOW])
def test_a_look_is_not_enough_where_something_changes(
    database: Database, client: Customer, options: InboxOptions
) -> None:
    verdicts = verdicts_of(["a"] if options is PLAIN else [], {})
    assert database.read_now(inbox.look, options, Wish(client.id, 2, verdicts)) is None


def number_of(database: Database, jti: str) -> int:
    row = database.read_now(lambda conn: conn.one(_ROW, jti=jti))
    assert row is not None
    return int(row["id"])


def test_new_events_wait_for_their_signatures_in_their_order(database: Database, client: Customer) -> None:
    """Names without an order, more than one of a kind, each with a text of its own, and one that is hard to write."""
    hard = '{"jti":"b","a":"\\u0000 \\\\ \\" \u2028 [,]"}'
    texts = {"c": '{"jti":"c"}', "b": hard, "a": '{"jti":"a"}'}
    database.write_now(inbox.put, [NewEvent(client.id, jti, "txn", "[]", text) for jti, text in texts.items()])
    ids = [number_of(database, jti) for jti in texts]
    assert ids == sorted(ids)
    assert [database.read_now(inbox.text_of, client.id, event) for event in ids] == list(texts.values())
    assert database.read_now(inbox.text_of, client.id, ids[-1] + 1) is None
    assert {bank.status_of(database, jti) for jti in texts} == {"unsigned"}


def test_very_many_are_put_a_piece_at_a_time(
    database: Database, client: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "PIECE_CHARACTERS_MAX", 100)
    sizes = [10, 90, 1, 300, 99, 100, 1]
    events = [NewEvent(client.id, f"j{place}", "txn", "[]", "x" * size) for place, size in enumerate(sizes)]
    assert [[len(event.claims) for event in piece] for piece in inbox._pieces(events)] == [
        [10, 90],
        [1],
        [300],
        [99],
        [100],
        [1],
    ]
    database.write_now(inbox.put, events)
    ids = [number_of(database, event.jti) for event in events]
    assert ids == sorted(ids)


def test_nothing_is_put_where_there_is_nothing(database: Database) -> None:
    database.write_now(inbox.put, [])


def test_what_is_ready_is_announced(database: Database, client: Customer) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    [event] = database.write_now(bank.put_unsigned, client.id, "a")
    assert heard == []
    database.write_now(inbox.make_ready, [SignedEvent(event, client.id, "token", "key", push_at=5)])
    assert heard == [InboxChanged(client.id)]
    row = database.read_now(lambda conn: conn.one(_ROW, jti="a"))
    assert row is not None
    assert (row["status"], row["kid"], row["push_at"]) == ("ready", "key", 5)
