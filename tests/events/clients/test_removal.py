"""A removed client has no access and receives nothing; its rows stay for the audit log."""

import csv

import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.clients import clients, removal
from restante.events.clients.clients import ClientFilter, ClientRegistration
from restante.events.publishing import event_audit, listing
from restante.events.publishing.listing import EventFilter
from restante.events.push import subscriptions
from restante.events.push.subscriptions import SubscriptionRequest
from restante.identity.clients import client_tokens
from tests.events import inbox_fixture
from tests.events.clients.test_routes_admin import AdminApp
from tests.events.publish_fixture import publish
from tests.events.token_app import add_by_secret

ALL = PageRequest(100, 0)


def test_removed_client_loses_access_events_and_subscription(database: Database) -> None:
    client = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, client.id, "a", "b", "c")
    database.write_now(inbox_fixture.acknowledge, "a")
    request = SubscriptionRequest("https://tpp.example/cb", "4.0", None)
    database.write_now(subscriptions.create, client.id, request)
    removed = database.write_now(removal.remove, client.client_id, "boss")
    assert (removed.status, removed.removed_at is not None) == ("removed", True)
    assert database.read_now(client_tokens.find, client.token) is None
    assert database.read_now(subscriptions.find, client.id) is None
    # What was delivered stays so; the rest is dropped, and still listed.
    events = database.read_now(listing.list_page, EventFilter(client.client_id), ALL).items
    assert {event.jti: event.status for event in events} == {"a": "acknowledged", "b": "dropped", "c": "dropped"}
    with pytest.raises(NotFound):
        publish(database, client.client_id)
    (row, *_) = database.read_now(event_audit.list_page, client.client_id, ALL).items
    assert (row.event, row.actor) == ("client.removed", "boss")
    assert b'"events_dropped":2' in bytes(row.detail)


def test_removal_is_final(database: Database) -> None:
    add_by_secret(database)
    first = database.write_now(removal.remove, "tpp", "boss")
    assert database.write_now(removal.remove, "tpp", "boss") == first
    for work, arguments in (
        (clients.resume, ("tpp", "boss")),
        (clients.suspend, ("tpp", "boss")),
        (clients.rotate, ("tpp", None, None, "boss")),
    ):
        with pytest.raises(Conflict, match="the client was removed"):
            database.write_now(work, *arguments)
    with pytest.raises(Conflict, match="already exists"):
        add_by_secret(database)
    with pytest.raises(NotFound):
        database.write_now(removal.remove, "nobody", "boss")


@pytest.mark.parametrize("client_id", clients.RESERVED_IDS)
def test_id_of_a_path_beside_the_clients_is_refused(database: Database, client_id: str) -> None:
    with pytest.raises(BadInput, match="client_id"):
        database.write_now(clients.add, ClientRegistration("n", "client_secret_basic", client_id))


async def test_clients_are_filtered_counted_exported_and_removed(database: Database) -> None:
    app = AdminApp(database)
    for client_id, name in (("a", "Alpha"), ("b", "Beta"), ("c", "=Cash")):
        registration = ClientRegistration(name, "client_secret_basic", client_id, scope="eventpolling ssf.read")
        database.write_now(clients.add, registration)
    add_by_secret(database, "d")
    await app.post("/admin/clients/b/suspend")
    assert (await app.client.delete("/admin/clients/a")).json()["status"] == "removed"
    for query, expected in (
        ("", ["a", "b", "c", "d"]),
        ("?status=active", ["c", "d"]),
        ("?status=suspended", ["b"]),
        ("?status=removed", ["a"]),
        ("?name=B", ["b"]),
        ("?scope=ssf.read", ["a", "b", "c"]),
        ("?token_endpoint_auth_method=private_key_jwt", []),
        ("?polled_before=1h", ["a", "b", "c", "d"]),
        ("?polled_after=1h", []),
    ):
        listed = await app.get("/admin/clients" + query)
        assert [item["client_id"] for item in listed["items"]] == expected, query
    counts = await app.get("/admin/clients/counts")
    assert {name: count["value"] for name, count in counts["states"].items()} == {
        "active": 2,
        "suspended": 1,
        "removed": 1,
    }
    exported = await app.client.get("/admin/clients/export?scope=ssf.read")
    lines = list(csv.DictReader(exported.text.removeprefix("\ufeff").splitlines()))
    assert [(line["client_id"], line["name"]) for line in lines] == [("a", "Alpha"), ("b", "Beta"), ("c", "'=Cash")]
    assert (await app.client.get("/admin/clients/export?format=json&status=removed")).json() == [
        await app.get("/admin/clients/a")
    ]
    for query, named in (("stats=active", "did you mean 'status'?"), ("status=gone", "status"), ("scope=x", "scope")):
        refused = await app.client.get(f"/admin/clients?{query}")
        assert (refused.status_code, named in refused.text) == (400, True), refused.text
    found = database.read_now(clients.list_page, ClientFilter(status="removed"), ALL)
    assert [each.client_id for each in found.items] == ["a"]
    await app.client.aclose()
