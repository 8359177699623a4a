import pytest

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import iso
from restante.database.database import Database
from restante.events import event_audit, listing, receivers, releasing
from restante.events.inbox import InboxChanged
from restante.events.releasing import Decision
from restante.web.paging import Window
from tests.conftest import START_MS
from tests.events import bank
from tests.events.bank import Customer
from tests.events.event_desk import poll
from tests.events.publishers import rows


@pytest.fixture
def tpp(database: Database) -> Customer:
    """A client that could use neither `a` nor `b`."""
    tpp = database.write_now(bank.add_client)
    database.write_now(bank.put_ready, tpp.id, "a", "b", "c")
    database.write_now(bank.hand_out, tpp.id, "a", "b")
    database.write_now(bank.call_wrong, tpp.id, {"a": ("jwtIss", "no"), "b": ("jwtAud", "no")})
    return tpp


def test_a_released_event_is_handed_out_again_the_same_bytes(database: Database, tpp: Customer) -> None:
    before = rows(database)[0]["text"]
    heard: list[object] = []
    database.on_commit(heard.extend)
    database.write_now(releasing.decide, Decision.release, "a", "ada")
    assert poll(database, tpp.id) == ["a", "c"]
    row = rows(database)[0]
    assert (row["text"], row["err"], row["errored_at"], row["push_at"]) == (before, None, None, None)
    assert any(isinstance(event, InboxChanged) and event.client == tpp.id for event in heard)


def test_a_released_event_is_pushed_again_where_there_is_a_receiver(database: Database, tpp: Customer) -> None:
    database.write_now(receivers.put, tpp.id, "open-banking", "https://tpp.example/cb")
    database.write_now(releasing.decide, Decision.release, "a", "ada")
    assert rows(database)[0]["push_at"] == START_MS


def test_a_dropped_event_is_never_handed_out_again(database: Database, tpp: Customer) -> None:
    database.write_now(releasing.decide, Decision.drop, "a", "ada")
    assert poll(database, tpp.id) == ["c"]
    shown = database.read_now(listing.show, "a")
    assert (shown.status, shown.finished_at, shown.err) == ("dropped", iso(START_MS), "jwtIss")


@pytest.mark.parametrize(("decision", "left"), [(Decision.release, ["a", "b", "c"]), (Decision.drop, ["c"])])
def test_all_of_a_client(database: Database, tpp: Customer, decision: Decision, left: list[str]) -> None:
    other = database.write_now(bank.add_client)
    database.write_now(bank.put_ready, other.id, "x")
    database.write_now(bank.call_wrong, other.id, {"x": ("e", "d")})
    assert database.write_now(releasing.decide_all, decision, tpp.client_id, "ada") == 2
    assert database.write_now(releasing.decide_all, decision, tpp.client_id, "ada") == 0
    assert poll(database, tpp.id) == left
    assert bank.status_of(database, "x") == "errored"


@pytest.mark.parametrize("decision", Decision)
def test_only_errored_events(database: Database, tpp: Customer, decision: Decision) -> None:
    before = rows(database)
    with pytest.raises(Conflict, match="ready"):
        database.write_now(releasing.decide, decision, "c", "ada")
    with pytest.raises(NotFound):
        database.write_now(releasing.decide, decision, "unknown", "ada")
    with pytest.raises(NotFound):
        database.write_now(releasing.decide_all, decision, "nobody", "ada")
    assert rows(database) == before
    assert tpp.client_id


def test_it_is_recorded(database: Database, tpp: Customer) -> None:
    database.write_now(releasing.decide, Decision.release, "a", "ada")
    database.write_now(releasing.decide_all, Decision.drop, tpp.client_id, "bob")
    found = database.read_now(event_audit.list_page, tpp.client_id, Window(10, 0)).items
    assert [(row.actor, row.event) for row in found[:2]] == [("bob", "events.dropped"), ("ada", "event.released")]


def test_some_are_decided_together_or_not_at_all(database: Database, tpp: Customer) -> None:
    with pytest.raises(Conflict):
        database.write_now(releasing.decide_some, Decision.drop, ["a", "c"], "ada")
    assert bank.status_of(database, "a") == "errored"
    assert database.write_now(releasing.decide_some, Decision.drop, ["a", "b", "a"], "ada") == 2
    assert poll(database, tpp.id) == ["c"]
