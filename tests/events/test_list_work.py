"""The events of one client cost the same however many events other clients have, and a step of their count the same
however many events the client has itself."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from restante.console.pages import ConsoleRequest
from restante.console.views.events.clients import ClientPages
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.lists import filtered_list
from restante.database.paging import PageRequest
from restante.events.publishing import listing
from restante.events.publishing.listing import EventFilter
from restante.identity.grants import ALL_IDS
from tests.database.statement_work import StatementWork
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient

EVENTS = 40
OTHERS = 4000
FILTERS = (EventFilter(), EventFilter(status="dropped"), EventFilter(txn="none"), EventFilter(status="ready"))


@pytest.fixture
def work(engine: Engine, database: Database) -> StatementWork:
    return StatementWork(engine, database)


@pytest.fixture
def neighbours(database: Database) -> list[PollingClient]:
    """Three clients; the one in the middle has events."""
    found = [database.write_now(inbox_fixture.add_client) for _ in range(3)]
    add_events(database, found[1], EVENTS)
    return found


def add_events(database: Database, client: PollingClient, number: int) -> None:
    jtis = [f"{client.client_id}-{number}-{each}" for each in range(number)]
    database.write_now(inbox_fixture.put_ready, client.id, *jtis)


def page(conn: Connection, client: PollingClient, filters: EventFilter) -> object:
    return listing.list_page(conn, of_client(client, filters), PageRequest(20, 0))


def step(conn: Connection, client: PollingClient, filters: EventFilter) -> object:
    return listing.counting(of_client(client, filters)).step(conn)


def of_client(client: PollingClient, filters: EventFilter) -> EventFilter:
    return EventFilter(client.client_id, filters.status, filters.txn)


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("read", [page, step])
def test_events_of_other_clients_cost_nothing(
    database: Database,
    work: StatementWork,
    neighbours: list[PollingClient],
    read: Callable[[Connection, PollingClient, EventFilter], object],
    filters: EventFilter,
) -> None:
    before, client, after = neighbours
    alone = work.of(read, client, filters)
    add_events(database, before, OTHERS)
    add_events(database, after, OTHERS)
    assert work.of(read, client, filters) <= alone * 2


def test_steps_of_a_count_cost_the_same_in_a_long_inbox(
    database: Database, work: StatementWork, neighbours: list[PollingClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client, _ = neighbours
    monkeypatch.setattr(filtered_list, "COUNT_STEP", EVENTS // 2)
    short = work.of(step, client, EventFilter())
    add_events(database, client, OTHERS)
    assert work.of(step, client, EventFilter()) <= short * 2


def test_page_after_any_number_shows_no_event_of_another_client(
    database: Database, neighbours: list[PollingClient]
) -> None:
    before, client, after = neighbours
    add_events(database, before, 3)
    add_events(database, after, 3)
    for filters in (EventFilter(client.client_id), EventFilter(client.client_id, txn="txn-none")):
        for start in (1, 2**40, 2**62, 2**63 - 1):
            found = database.read_now(listing.list_page, filters, PageRequest(100, start))
            assert {each.client_id for each in found.items} <= {client.client_id}


async def test_search_for_a_client_reads_no_events(
    database: Database, work: StatementWork, neighbours: list[PollingClient]
) -> None:
    reads: list[Callable[[Connection], object]] = []

    class Request:
        allowed = ALL_IDS

        async def read(self, function: Callable[..., Any], *args: Any) -> Any:
            reads.append(lambda conn: function(conn, *args))
            return await database.read(function, *args)

    hits = await ClientPages(lambda _id, at: at).find(cast(ConsoleRequest, Request()), "no such client")
    assert hits == []
    alone = [work.of(read) for read in reads]
    for client in neighbours:
        add_events(database, client, OTHERS // 4)
    assert [work.of(read) for read in reads] == alone
