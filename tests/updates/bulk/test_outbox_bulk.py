"""Bulk retries of outbox rows, through the route and the job engine."""

from typing import Any

import httpx
import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.grants import Grants, checked_grants
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.jobs.actions import JobActions
from restante.jobs.runner import JobRunner
from restante.updates.bulk.outbox_actions import outbox_actions
from restante.updates.devices.routes_fleet import FleetRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.defaults import new_application, new_device_tokens
from tests.delivery.rows import add_device
from tests.jobs.job_fixture import run_until_idle

FAIL = Query("fail", "UPDATE device_update_outbox SET status = 'FAILED', failure_reason = 'no log' WHERE id < 4")
STATES = Query("states", "SELECT status FROM device_update_outbox ORDER BY id")
OWNER = Query("owner", "SELECT user_id FROM user_devices WHERE id = :device_id")
AUDITED = Query("audited", "SELECT actor, event FROM access_audit WHERE job IS NOT NULL ORDER BY id")


class OutboxApi:
    """Two devices of one user; four rows, of which three are FAILED: of the first, second and first device."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.devices = [database.write_now(add_device), database.write_now(add_device)]
        database.write_now(self._fill)
        tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
        routes = FleetRoutes(database, {}).routes()
        application = new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)
        self._transport = httpx.ASGITransport(application)

    def _fill(self, conn: Connection) -> None:
        for number in range(4):
            outbox.enqueue(conn, self.devices[number % 2], Signal(f"type.{number // 2}", number, {}))
        conn.run(FAIL)

    async def bulk(self, grants: Grants | Role = Role.operator, **body: Any) -> httpx.Response:
        _, key = self.database.write_now(api_keys.create, "robot", grants)
        async with httpx.AsyncClient(transport=self._transport, base_url="http://restante.test") as client:
            headers = {"authorization": f"Bearer {key}"}
            response = await client.post("/apiv1/outbox/bulk", headers=headers, json={"action": "retry", **body})
        await run_until_idle(JobRunner(self.database, JobActions(outbox_actions())))
        return response

    def states(self) -> list[str]:
        return [row["status"] for row in self.database.read_now(lambda conn: conn.all(STATES))]


@pytest.fixture
def api(database: Database) -> OutboxApi:
    return OutboxApi(database)


async def test_failed_rows_of_a_device_are_retried(api: OutboxApi) -> None:
    response = await api.bulk(filter={"device_id": api.devices[0]})
    assert (response.status_code, response.json()["data"]["total"]) == (202, 2)
    assert api.states() == ["PENDING", "FAILED", "PENDING", "PENDING"]
    audited = api.database.read_now(lambda conn: conn.all(AUDITED))
    assert [(row["actor"], row["event"]) for row in audited] == [("key:robot", "outbox.retried")] * 2


async def test_filter_by_type_and_failure(api: OutboxApi) -> None:
    sample = await api.bulk(filter={"event_kind": "type.0", "failure_contains": "log"}, dry_run=True)
    assert (sample.status_code, sample.json()["data"]["total"]) == (200, 2)
    assert [row["id"] for row in sample.json()["data"]["sample"]] == [1, 2]
    await api.bulk(filter={"event_kind": "type.1"})
    assert api.states() == ["FAILED", "FAILED", "PENDING", "PENDING"]


async def test_key_of_some_users_retries_only_their_rows(api: OutboxApi) -> None:
    row = api.database.read_now(lambda conn: conn.one(OWNER, device_id=api.devices[1]))
    assert row is not None
    grants = checked_grants([(Role.operator, f"updates:{row['user_id']}")])
    other = await api.bulk(checked_grants([(Role.operator, "updates:999")]), all=True)
    assert (other.json()["data"]["total"], api.states().count("FAILED")) == (0, 3)
    response = await api.bulk(grants, all=True)
    assert (response.json()["data"]["total"], api.states().count("FAILED")) == (3, 0)


async def test_empty_filter_is_refused(api: OutboxApi) -> None:
    response = await api.bulk(filter={})
    assert response.status_code == 400
    assert "filter" in response.json()["error"]["what"]
    assert api.states().count("FAILED") == 3
