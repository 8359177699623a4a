"""Streams for operators: listed, stopped and started; the receiver is told, and it is written down."""

import pytest

from restante.database.database import Database
from restante.events import event_audit, streams
from restante.events.event_catalogue import STREAM_UPDATED, SUPPORTED_BY_DEFAULT
from restante.events.routes_admin_streams import AdminStreamRoutes
from restante.events.streams import StreamRules, StreamWish
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.web.paging import Window
from tests.events.desk import Desk
from tests.events.pushing import add_client
from tests.events.test_streams import left


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, AdminStreamRoutes(database).routes())


async def test_streams_are_listed_in_pages_and_changed(database: Database, desk: Desk) -> None:
    _id, key = database.write_now(api_keys.create, "tests", Role.operator)
    headers = {"authorization": f"Bearer {key}"}
    rules = StreamRules(SUPPORTED_BY_DEFAULT)
    made = [database.write_now(streams.create, rules, add_client(database), StreamWish()) for _ in range(2)]
    page = (await desk.ask("GET", "/admin/streams?limit=1", headers=headers)).json()
    assert [row["stream_id"] for row in page["items"]] == [made[0].public_id]
    rest = (await desk.ask("GET", f"/admin/streams?after={page['next']}", headers=headers)).json()
    assert [(row["stream_id"], row["status"]) for row in rest["items"]] == [(made[1].public_id, "enabled")]
    path = f"/admin/streams/{made[0].public_id}/status"
    answer = await desk.ask("POST", path, headers=headers, json={"status": "paused", "reason": "maintenance"})
    assert (answer.status_code, answer.json()["status"], answer.json()["reason"]) == (200, "paused", "maintenance")
    (told,) = left(database, made[0].client)
    assert told["events"] == {STREAM_UPDATED: {"status": "paused", "reason": "maintenance"}}
    actions = database.read_now(event_audit.list_page, made[0].client_id, Window(10, 0)).items
    assert [(action.event, action.actor) for action in actions] == [("stream.status_changed", "key:tests")]
    absent = await desk.ask("POST", "/admin/streams/absent/status", headers=headers, json={"status": "paused"})
    assert absent.status_code == 404
