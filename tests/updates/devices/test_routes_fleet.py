import csv
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.external.external_database import ExternalDatabase
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OWN_SOURCE
from restante.delivery.outbox.outbox_sources import OutboxSource, own_outbox_source
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.outbox import enqueue
from restante.updates.devices.routes_fleet import FleetRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.conftest import START_MS
from tests.defaults import new_application, new_device_tokens
from tests.delivery.external_databases import sqlite_application

FAIL = Query("fail", "UPDATE device_update_outbox SET status = 'FAILED', failure_reason = 'why' WHERE id = :id")


def _enqueue(conn: Connection, count: int) -> None:
    for number in range(count):
        outbox.enqueue(conn, number % 2 + 1, Signal("test", number, {}))


def _fail(conn: Connection, row_id: int) -> None:
    conn.run(FAIL, id=row_id)


class WokenDispatchers(list[str]):
    """Whose dispatchers were woken."""


@pytest.fixture
def woken() -> WokenDispatchers:
    return WokenDispatchers()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ExternalDatabase]:
    """An outbox in an external database, with one FAILED row."""
    application = sqlite_application(tmp_path)
    with closing(application.connect()) as conn:
        enqueue(conn, 7, {"type": "x", "ref": {}})
        conn.execute("UPDATE device_update_outbox SET status = 'FAILED', failure_reason = 'why'")
        conn.commit()
    with application.opened() as shop:
        yield shop


@pytest.fixture
def sources(database: Database, shop: ExternalDatabase, woken: WokenDispatchers) -> dict[str, OutboxSource]:
    own = own_outbox_source(database, lambda: woken.append(OWN_SOURCE))
    return {OWN_SOURCE: own, "shop": OutboxSource("shop", shop, lambda: woken.append("shop"))}


@pytest.fixture
async def client(database: Database, sources: dict[str, OutboxSource]) -> AsyncIterator[httpx.AsyncClient]:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    application = new_application(
        FleetRoutes(database, sources).routes(), AccessControl(database, tokens), RESPONSE_FORMAT
    )
    _, key = database.write_now(api_keys.create, "test", Role.operator)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url="http://restante.example",
        headers={"Authorization": f"Bearer {key}"},
    ) as client:
        yield client


async def data_of(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def test_outbox_rows_are_listed_in_pages(client: httpx.AsyncClient, database: Database) -> None:
    database.write_now(_enqueue, 5)
    page = await data_of(client, "/apiv1/outbox?limit=2")
    assert ([row["id"] for row in page["items"]], page["next"]) == ([5, 4], 4)
    page = await data_of(client, "/apiv1/outbox?limit=3&after=4")
    assert ([row["id"] for row in page["items"]], page["next"]) == ([3, 2, 1], None)


async def test_outbox_rows_are_filtered(client: httpx.AsyncClient, database: Database) -> None:
    database.write_now(_enqueue, 4)
    database.write_now(_fail, 3)
    assert [row["id"] for row in (await data_of(client, "/apiv1/outbox?status=FAILED"))["items"]] == [3]
    assert [row["id"] for row in (await data_of(client, "/apiv1/outbox?device_id=2"))["items"]] == [4, 2]
    assert (await client.get("/apiv1/outbox?status=LOST")).status_code == 400
    assert (await client.get("/apiv1/outbox?device_id=x")).status_code == 400


async def test_outbox_rows_are_counted_and_exported(client: httpx.AsyncClient, database: Database) -> None:
    database.write_now(_enqueue, 4)
    database.write_now(_fail, 3)
    counts = await data_of(client, "/apiv1/outbox/counts")
    assert counts["total"] == {"value": 4, "is_exact": True}
    assert {name: count["value"] for name, count in counts["states"].items()} == {
        "PENDING": 3,
        "DELIVERED": 0,
        "FAILED": 1,
    }
    exported = await client.get("/apiv1/outbox/export?status=PENDING")
    lines = list(csv.DictReader(exported.text.removeprefix("\ufeff").splitlines()))
    assert [line["id"] for line in lines] == ["4", "2", "1"]
    as_json = (await client.get("/apiv1/outbox/export?format=json&event_kind=test&until=9999-01-01T00:00:00Z")).json()
    assert [row["id"] for row in as_json] == [4, 3, 2, 1]
    assert (await data_of(client, "/apiv1/outbox?since=9999-01-01T00:00:00Z"))["items"] == []
    for part in ("", "/counts", "/export"):
        refused = await client.get(f"/apiv1/outbox{part}?device=2")
        assert (refused.status_code, "did you mean 'device_id'?" in refused.text) == (400, True), refused.text


async def test_outbox_row_is_shown_with_its_payload(client: httpx.AsyncClient, database: Database) -> None:
    database.write_now(_enqueue, 1)
    row = await data_of(client, "/apiv1/outbox/1")
    assert row["payload"] == '{"type":"test","ts_ms":0,"ref":{}}'
    assert row["status"] == "PENDING"
    assert (await client.get("/apiv1/outbox/2")).status_code == 404


async def test_only_failed_rows_are_retried(client: httpx.AsyncClient, database: Database) -> None:
    database.write_now(_enqueue, 3)
    database.write_now(_fail, 2)
    database.write_now(_fail, 3)
    assert (await client.post("/apiv1/outbox/1/retry")).status_code == 409
    assert (await client.post("/apiv1/outbox/9/retry")).status_code == 404
    assert (await client.post("/apiv1/outbox/2/retry")).json() == {"data": {"retried": 1}}
    assert (await data_of(client, "/apiv1/outbox/2"))["status"] == "PENDING"
    assert (await client.post("/apiv1/outbox/retry")).json() == {"data": {"retried": 1}}
    assert (await data_of(client, "/apiv1/outbox/3"))["failure_reason"] is None


async def test_poll_boost_is_started_shown_and_stopped(client: httpx.AsyncClient) -> None:
    assert (await data_of(client, "/apiv1/poll-boost"))["active"] is False
    started = await client.put("/apiv1/poll-boost", json={"for_seconds": 60, "interval_seconds": 5})
    assert started.json()["data"] == {"active": True, "until": iso_precise(START_MS + 60_000), "interval_seconds": 5}
    assert await data_of(client, "/apiv1/poll-boost") == started.json()["data"]
    assert (await client.delete("/apiv1/poll-boost")).status_code == 204
    assert (await data_of(client, "/apiv1/poll-boost"))["active"] is False


@pytest.mark.parametrize(
    "body", [{}, {"for_seconds": 0}, {"for_seconds": 60, "interval_seconds": 3601}, {"for_seconds": 60, "x": 1}]
)
async def test_poll_boost_out_of_bounds_is_refused(client: httpx.AsyncClient, body: dict[str, int]) -> None:
    assert (await client.put("/apiv1/poll-boost", json=body)).status_code == 400
    assert (await data_of(client, "/apiv1/poll-boost"))["active"] is False


async def test_rows_of_an_external_outbox_are_listed_shown_and_retried(
    client: httpx.AsyncClient, woken: WokenDispatchers
) -> None:
    page = await data_of(client, "/apiv1/outbox?source=shop&status=FAILED")
    assert [(row["id"], row["device_id"], row["source"]) for row in page["items"]] == [(1, 7, "shop")]
    assert (await data_of(client, "/apiv1/outbox/1?source=shop"))["failure_reason"] == "why"
    assert (await client.get("/apiv1/outbox/1")).status_code == 404
    assert (await client.post("/apiv1/outbox/1/retry?source=shop")).json() == {"data": {"retried": 1}}
    assert (await client.post("/apiv1/outbox/1/retry?source=shop")).status_code == 409
    assert (await client.post("/apiv1/outbox/retry?source=shop")).json() == {"data": {"retried": 0}}
    assert set(woken) == {"shop"}


async def test_unknown_outbox_is_not_found(client: httpx.AsyncClient) -> None:
    refused = await client.get("/apiv1/outbox?source=depot")
    assert refused.status_code == 404
    assert "there is no outbox 'depot'" in refused.json()["error"]["what"]


async def test_outboxes_are_listed_with_their_state(client: httpx.AsyncClient, shop: ExternalDatabase) -> None:
    own, external = (await data_of(client, "/apiv1/outboxes"))["items"]
    assert (own["source"], own["reachable"], own["pending"]) == ("server", True, 0)
    assert (external["source"], external["reachable"], external["failed"]) == ("shop", True, 1)
    shop.close()
    _, external = (await data_of(client, "/apiv1/outboxes"))["items"]
    assert (external["reachable"], external["problem"]) == (False, "the database is closed")
