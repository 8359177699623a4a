import pytest

from restante.core.errors import NotFound
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.events.publishing import client_status
from restante.events.publishing.client_status import SQL
from restante.events.push import receivers
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.publish_fixture import publish


def test_waiting_delivered_and_errored_events_are_counted(database: Database, clock: ManualClock) -> None:
    tpp, idle = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b", "c", "d", "e")
    clock.advance(60)
    database.write_now(inbox_fixture.put_ready, tpp.id, "s1", "s2", profile="shared-signals")
    publish(database, tpp.client_id)
    database.write_now(inbox_fixture.deliver, tpp.id, "a", "b", "c", "d")
    database.write_now(inbox_fixture.acknowledge, "a")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"b": ("jwtIss", "first"), "c": ("jwtIss", "second")})
    clock.advance(30)
    first, second = database.read_now(client_status.list_page, PageRequest(100, 0)).items
    assert (first.client_id, first.waiting, first.delivered, first.errored) == (tpp.client_id, 4, 1, 2)
    assert (first.oldest_at, first.oldest_age_seconds) == (iso_precise(START_MS), 90.0)
    assert (second.client_id, second.waiting, second.delivered, second.errored) == (idle.client_id, 0, 0, 0)
    assert (second.oldest_at, second.oldest_age_seconds, second.last_poll_at) == (None, None, None)
    shown = database.read_now(client_status.show, tpp.client_id)
    assert (shown.waiting, shown.delivered, shown.unsigned) == (4, 1, 1)
    [reason] = shown.reasons
    assert (reason.err, reason.count, reason.newest_description) == ("jwtIss", 2, "second")


def test_pages_show_suspended_clients_and_last_polls(database: Database) -> None:
    clients = [database.write_now(inbox_fixture.add_client) for _ in range(3)]
    database.write_now(inbox_fixture.suspend, clients[1].id)
    polled = Query("polled", "UPDATE event_clients SET last_poll_at = 7 WHERE id = :id")
    database.write_now(lambda conn: conn.run(polled, id=clients[2].id))
    first = database.read_now(client_status.list_page, PageRequest(2, 0))
    assert first.next is not None
    rest = database.read_now(client_status.list_page, PageRequest(2, first.next))
    assert [each.is_suspended for each in [*first.items, *rest.items]] == [False, True, False]
    assert rest.items[0].last_poll_at == iso_precise(7)


def test_status_shows_receivers(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(receivers.set_receiver, tpp.id, "open-banking", "https://tpp.example/cb")
    [receiver] = database.read_now(client_status.show, tpp.client_id).receivers
    assert (receiver.url, receiver.waiting, receiver.failures) == ("https://tpp.example/cb", 0, 0)


def test_unknown_client_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        database.read_now(client_status.show, "nobody")


@pytest.mark.embedded
def test_counts_read_only_indexes(database: Database) -> None:
    """With a million rows, it must read no row except the oldest."""

    def plan(conn: Connection) -> list[str]:
        explained = Query("explained", f"EXPLAIN QUERY PLAN {SQL.statuses.text}")
        return [row["detail"] for row in conn.all(explained, after=0, clients=None, limit=10)]

    found = [step for step in database.read_now(plan) if " i " in f"{step} "]
    assert len(found) == 6
    counting, oldest = found[:4], found[4:]
    assert all("COVERING INDEX ix_event_inbox_" in step for step in counting), found
    assert all("INDEX ix_event_inbox_open" in step for step in oldest), found
