"""Operator routes of streams: listing, and a status change with its event and audit entry."""

import pytest

from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import event_audit
from restante.events.publishing.catalogue import STREAM_UPDATED
from restante.events.ssf import streams
from restante.events.ssf.routes_admin import AdminStreamRoutes
from restante.events.ssf.streams import StreamRequest
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.events.client_app import ClientApp
from tests.events.default_options import stream_rules
from tests.events.push_fixture import add_client
from tests.events.ssf.test_streams import open_events


@pytest.fixture
def app(database: Database) -> ClientApp:
    return ClientApp(database, AdminStreamRoutes(database).routes())


async def test_streams_are_listed_in_pages_and_their_status_is_changed(database: Database, app: ClientApp) -> None:
    _id, key = database.write_now(api_keys.create, "tests", Role.operator)
    headers = {"authorization": f"Bearer {key}"}
    rules = stream_rules()
    created = [database.write_now(streams.create, rules, add_client(database), StreamRequest()) for _ in range(2)]
    page = (await app.request("GET", "/admin/streams?limit=1", headers=headers)).json()
    assert [row["stream_id"] for row in page["items"]] == [created[0].public_id]
    rest = (await app.request("GET", f"/admin/streams?after={page['next']}", headers=headers)).json()
    assert [(row["stream_id"], row["status"]) for row in rest["items"]] == [(created[1].public_id, "enabled")]
    path = f"/admin/streams/{created[0].public_id}/status"
    response = await app.request("POST", path, headers=headers, json={"status": "paused", "reason": "maintenance"})
    assert (response.status_code, response.json()["status"], response.json()["reason"]) == (
        200,
        "paused",
        "maintenance",
    )
    (event,) = open_events(database, created[0].client)
    assert event["events"] == {STREAM_UPDATED: {"status": "paused", "reason": "maintenance"}}
    actions = database.read_now(event_audit.list_page, created[0].client_id, PageRequest(10, 0)).items
    assert [(action.event, action.actor) for action in actions] == [("stream.status_changed", "key:tests")]
    absent = await app.request("POST", "/admin/streams/absent/status", headers=headers, json={"status": "paused"})
    assert absent.status_code == 404
