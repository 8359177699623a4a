from typing import Any

import pytest

from restante.core.errors import NotFound
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import listing
from restante.events.publishing.listing import EventFilter
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.publish_fixture import SUB, UPDATED, publish

ALL = PageRequest(100, 0)


def listed(database: Database, window: PageRequest = ALL, **filters: Any) -> list[str]:
    return [event.jti for event in database.read_now(listing.list_page, EventFilter(**filters), window).items]


def test_events_are_listed_newest_first_in_pages(database: Database) -> None:
    tpp, other = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    jtis = [publish(database, tpp.client_id)[0] for _ in range(5)]
    others = publish(database, other.client_id)
    assert listed(database) == [*others, *reversed(jtis)]
    first = database.read_now(listing.list_page, EventFilter(tpp.client_id), PageRequest(3, 0))
    assert first.next is not None
    rest = database.read_now(listing.list_page, EventFilter(tpp.client_id), PageRequest(3, first.next))
    assert [event.jti for event in [*first.items, *rest.items]] == jtis[::-1]
    assert rest.next is None


def test_lists_are_filtered_by_client_status_and_txn(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, tpp.id, "done", "wrong", "open")
    database.write_now(inbox_fixture.acknowledge, "done")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"wrong": ("jwtIss", "no")})
    [unsigned] = publish(database, tpp.client_id, txn="t-1")
    assert listed(database, client_id=tpp.client_id, status="acknowledged") == ["done"]
    assert listed(database, client_id=tpp.client_id, status="errored") == ["wrong"]
    assert listed(database, client_id=tpp.client_id, status="ready") == ["open"]
    assert listed(database, client_id=tpp.client_id, status="unsigned") == [unsigned]
    assert listed(database, status="ready") == ["open"]
    assert listed(database, txn="t-1") == [unsigned]
    assert listed(database, client_id=tpp.client_id, txn="txn-done") == ["done"]
    assert listed(database, client_id=tpp.client_id) == [unsigned, "open", "wrong", "done"]


def test_unknown_client_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        listed(database, client_id="nobody")


def test_filtered_lists_have_pages(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    jtis = [publish(database, tpp.client_id)[0] for _ in range(3)]
    filters = EventFilter(tpp.client_id, "unsigned")
    first = database.read_now(listing.list_page, filters, PageRequest(2, 0))
    assert first.next is not None
    rest = database.read_now(listing.list_page, filters, PageRequest(2, first.next))
    assert [event.jti for event in [*first.items, *rest.items]] == jtis[::-1]


def test_unsigned_event_is_shown_with_its_claims(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    [jti] = publish(database, tpp.client_id, txn="t-1")
    shown = database.read_now(listing.show, jti)
    assert (shown.client_id, shown.txn, shown.status, shown.kid) == (tpp.client_id, "t-1", "unsigned", None)
    assert (shown.event_types, shown.created_at) == (list(UPDATED), iso_precise(START_MS))
    assert (shown.claims["sub"], shown.claims["jti"]) == (SUB, jti)
    assert (shown.first_polled_at, shown.push_attempts) == (None, 0)


def test_event_is_shown_with_its_first_poll_and_error(database: Database, clock: ManualClock) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    jtis = [publish(database, tpp.client_id)[0] for _ in range(2)]
    for jti in jtis:
        # The payload is {"a":1}.
        database.write_now(inbox_fixture.sign, tpp.id, jti, "e30.eyJhIjoxfQ.c2ln")
    clock.advance(10)
    database.write_now(inbox_fixture.deliver, tpp.id, jtis[0])
    clock.advance(10)
    database.write_now(inbox_fixture.deliver, tpp.id, *jtis)
    database.write_now(inbox_fixture.report_errors, tpp.id, {jtis[0]: ("jwtAud", "not for us")})
    first, second = (database.read_now(listing.show, jti) for jti in jtis)
    assert (first.first_polled_at, second.first_polled_at) == (
        iso_precise(START_MS + 10_000),
        iso_precise(START_MS + 20_000),
    )
    assert (first.status, first.err, first.err_description) == ("errored", "jwtAud", "not for us")
    assert first.errored_at == iso_precise(START_MS + 20_000)
    assert first.claims == {"a": 1}


def test_unknown_event_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        database.read_now(listing.show, "unknown")
