"""Bulk actions on events, through the route and the job engine."""

from typing import Any

import pytest

from restante.core.events.poll_acks import Verdicts
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.bulk.event_actions import event_job_actions
from restante.events.inbox import inbox
from restante.events.publishing import event_audit, listing
from restante.identity.callers import Role
from restante.jobs import jobs
from restante.jobs.actions import JobActions
from restante.jobs.jobs import JobView
from restante.jobs.runner import JobRunner
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.events.operator_app import OperatorApp, error_of, poll_jtis
from tests.jobs.job_fixture import run_until_idle

ACTIONS = JobActions(event_job_actions())


@pytest.fixture
def app(database: Database) -> OperatorApp:
    return OperatorApp(database)


@pytest.fixture
def tpp(database: Database) -> PollingClient:
    """A client with the events `a` and `b` errored, `c` acknowledged and `d` waiting."""
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b", "c", "d")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"a": ("jwtIss", "no"), "b": ("jwtAud", "no")})
    acknowledge(database, tpp, "c")
    return tpp


def acknowledge(database: Database, client: PollingClient, *jtis: str) -> None:
    database.write_now(inbox.apply_verdicts, client.id, Verdicts(list(jtis), {}))


async def bulk(app: OperatorApp, **body: Any) -> JobView:
    response = await app.request("POST", "/admin/events/bulk", body, role=Role.operator)
    assert response.status_code == 202, response.text
    await run_until_idle(JobRunner(app.database, ACTIONS))
    job_id = response.json()["job_id"]
    return app.database.read_now(lambda conn: jobs.show(conn, ACTIONS, jobs.find(conn, job_id)))


async def test_errored_events_with_one_error_are_released(app: OperatorApp, tpp: PollingClient) -> None:
    job = await bulk(app, action="release", filter={"client_id": tpp.client_id, "err": "jwtIss"})
    assert (job.state, job.total, job.done) == ("done", 1, 1)
    assert poll_jtis(app.database, tpp.id) == ["a", "d"]
    [action] = app.database.read_now(event_audit.list_page, tpp.client_id, PageRequest(10, 0)).items
    assert (action.actor, action.event) == ("key:operator", "event.released")


async def test_errored_events_of_every_client_are_dropped(app: OperatorApp, tpp: PollingClient) -> None:
    job = await bulk(app, action="drop", all=True)
    assert (job.state, job.done) == ("done", 2)
    assert app.database.read_now(listing.show, "a").status == "dropped"
    assert poll_jtis(app.database, tpp.id) == ["d"]


async def test_acknowledged_events_since_a_time_are_delivered_again(
    app: OperatorApp, tpp: PollingClient, clock: ManualClock
) -> None:
    clock.advance(60)
    database = app.database
    database.write_now(inbox_fixture.put_ready, tpp.id, "e")
    acknowledge(database, tpp, "d", "e")
    recent = {"client_id": tpp.client_id, "since": iso_precise(START_MS + 60_000)}
    job = await bulk(app, action="redeliver", filter=recent)
    assert (job.done, poll_jtis(database, tpp.id)) == (1, ["e"])
    job = await bulk(app, action="redeliver", filter={"acknowledged_since": iso_precise(START_MS)})
    assert (job.done, poll_jtis(database, tpp.id)) == (2, ["c", "d", "e"])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"action": "release"}, "filter"),
        ({"action": "release", "filter": {"since": "yesterday"}}, "filter.since"),
        ({"action": "release", "filter": {"status": "ready"}}, "filter.status"),
        ({"action": "release", "all": True, "params": {"x": 1}}, "params.x"),
    ],
)
async def test_malformed_request_names_its_field(app: OperatorApp, body: dict[str, Any], path: str) -> None:
    response = await app.request("POST", "/admin/events/bulk", body, role=Role.operator)
    assert (response.status_code, error_of(response)[2]) == (400, path), response.text


async def test_unknown_client_is_reported_as_missing(app: OperatorApp) -> None:
    body = {"action": "release", "filter": {"client_id": "nobody"}}
    assert (await app.request("POST", "/admin/events/bulk", body, role=Role.operator)).status_code == 404
