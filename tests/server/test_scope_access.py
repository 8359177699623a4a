"""Every route for people and API keys, called by a key of every role in every scope.

The tables below state independently what each route touches; they are not derived from the routes. A new route without
an entry fails.
"""

import csv
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from restante.events.ssf import streams
from restante.identity import api_keys
from restante.identity.grants import Grants, Role, checked_grants
from restante.identity.people import sessions, users
from restante.web.access import IN_PERSON, SESSION_COOKIE
from restante.web.routes import Access, Route
from tests.identity.people_and_devices import SESSION_SECONDS
from tests.server.populated_server import PopulatedServer, Resources, fill_path
from tests.server.route_table import every_route, route_name
from tests.server.scope_table import BODY, GIVEN, JOB, JOBS, LIST, PEOPLE, RESOURCE, SHARED, TOUCHES, USERS, WHOLE
from tests.server.valid_bodies import valid_body

MACHINES = {
    Access.open,
    Access.device,
    Access.collector,
    Access.older_collector,
    Access.client,
    Access.subscriber,
    Access.ssf_read,
    Access.ssf_manage,
}
ROUTES = [route for route in every_route() if route.access not in MACHINES]
ROLE_NEEDED = {
    Access.read: Role.viewer,
    Access.operate: Role.operator,
    Access.approve: Role.approver,
    Access.approve_in_person: Role.approver,
    Access.administer: Role.admin,
    Access.manage_access: Role.admin,
    Access.team_read: Role.viewer,
    Access.team_operate: Role.operator,
    Access.manage_people: Role.admin,
    Access.fleet_read: Role.viewer,
    Access.fleet_operate: Role.operator,
    Access.jobs_read: Role.viewer,
    Access.jobs_operate: Role.operator,
    Access.jobs_approve: Role.approver,
}
OUTSIDE = {USERS: 403, RESOURCE: 404, BODY: 400, LIST: 200, SHARED: 200, WHOLE: 403, PEOPLE: 404, GIVEN: 403}
OUTSIDE |= {JOB: 404, JOBS: 200}
# Answers about the caller's own user, whose key without a user has none: see test_route_access.
OWN = {"GET /apiv1/me/devices"}
# The callers' scopes: everything, an area, the resources of these tests, other resources.
SCOPES = ("all", "area", "own", "other", "elsewhere")
AREAS = ("updates", "commands", "events")


class Fixture(NamedTuple):
    server: PopulatedServer
    own: Resources
    other: Resources
    # By role, scope and area.
    headers: dict[tuple[Role, str, str], dict[str, str]]


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fixture]:
    server = PopulatedServer(tmp_path_factory.mktemp("scopes"))
    own, other = server.add_resources(server.fleet.user_id), server.add_resources(server.fleet.other_id)
    headers = {
        (role, scope, area): key_with(server, role, *scopes_of(server, scope, area, own, other))
        for role in Role
        for scope in SCOPES
        for area in (*AREAS, "everything")
    }
    yield Fixture(server, own, other, headers)
    server.close()


def scopes_of(server: PopulatedServer, scope: str, area: str, own: Resources, other: Resources) -> list[str]:
    """The scopes of a key. The routes for people and keys are of no area: there `commands` stands for one."""
    if scope == "all":
        return ["all"]
    area = "commands" if area == "everything" else area
    if scope == "elsewhere":
        return [each for each in AREAS if each != area]
    if scope == "area":
        return [area]
    return resource_scopes(server, area, own if scope == "own" else other)


def resource_scopes(server: PopulatedServer, area: str, resources: Resources) -> list[str]:
    if area == "updates":
        return [f"updates:{resources.user_id}"]
    if area == "commands":
        return [f"commands:{resources.edge.site_id}", f"commands:{resources.edge.empty_site_id}"]
    found = server.node.database.read_now(streams.list_after, 0, 10_000)
    streaming = next(each.client_id for each in found if each.public_id == resources.events.stream_id)
    return [f"events:{resources.events.client_id}", f"events:{streaming}"]


def key_with(server: PopulatedServer, role: Role, *scopes: str) -> dict[str, str]:
    return headers_of(server, checked_grants((role, scope) for scope in scopes))


def headers_of(server: PopulatedServer, grants: Grants) -> dict[str, str]:
    """A key and, for routes that need a person, a session with these grants. Each caller sends one of them."""
    database = server.node.database
    _, key = database.write_now(api_keys.create, "scoped", grants)
    user_id = database.write_now(users.add, f"{uuid4()}@example.com", "x", grants)
    session = database.write_now(sessions.start, user_id, SESSION_SECONDS)
    return {"authorization": f"Bearer {key}", "cookie": f"{SESSION_COOKIE}={session}"}


def entry_of(route: Route) -> tuple[str, str]:
    """The area and the kind of a route. KeyError: the route has no entry yet."""
    return next((area, entries[route_name(route)]) for area, entries in TOUCHES.items() if route_name(route) in entries)


def expected_status(route: Route, role: Role, scope: str) -> int:
    area, touches = entry_of(route)
    if role < ROLE_NEEDED[route.access]:
        return 403
    if area == "everything" and scope != "all":
        # An administrator of a part sees the people and keys of that part only.
        return 403 if touches == WHOLE else OUTSIDE[touches]
    if scope == "elsewhere":
        return OUTSIDE[touches] if touches in (JOB, JOBS) else 403
    if scope == "own":
        return 403 if touches == WHOLE else route.status
    return OUTSIDE[touches] if scope == "other" else route.status


def call(server: PopulatedServer, route: Route, resources: Resources, headers: dict[str, str]) -> httpx.Response:
    path = fill_path(route, resources)
    unused = "authorization" if route.access in (*IN_PERSON, Access.manage_people) else "cookie"
    headers = {name: value for name, value in headers.items() if name != unused}
    path += f"?site_id={resources.edge.site_id}" if route.path.endswith("/admin/telemetry") else ""
    return server.request(route, path, headers, valid_body(server, route, resources))


def test_every_route_has_an_entry() -> None:
    named = {name for entries in TOUCHES.values() for name in entries}
    assert {route_name(route) for route in ROUTES} == named | OWN


@pytest.mark.parametrize("route", [each for each in ROUTES if route_name(each) not in OWN], ids=route_name)
def test_role_and_scope_decide(fixture: Fixture, route: Route) -> None:
    """Refused callers change nothing. Admitted callers are called where nothing changes; see below for the others."""
    server, (area, touches) = fixture.server, entry_of(route)
    changes = route.method != "GET"
    before = server.dump() if changes else None
    for role in Role:
        for scope in SCOPES:
            status = expected_status(route, role, scope)
            if changes and status < 400:
                continue
            response = call(server, route, fixture.own, fixture.headers[role, scope, area])
            assert response.status_code == status, f"{role.name}@{scope}: {response.text[:200]}"
            if status == 200 and scope == "other" and touches in (LIST, JOBS):
                check_filtered(fixture, route, response)
    if changes:
        assert server.dump() == before


def check_filtered(fixture: Fixture, route: Route, response: httpx.Response) -> None:
    """Check that a list shows only the caller's own part to a caller of another site, client or user."""
    other, own = fixture.other, fixture.own
    area, touches = entry_of(route)
    if route.path.endswith("/audit/export"):
        header = json.loads(response.text.splitlines()[0])
        chains = {checkpoint["chain"] for checkpoint in header["checkpoints"]}
        assert chains == {other.edge.site_id, other.edge.empty_site_id}
        return
    if touches == JOBS:
        name = "job_id" if route.path == "/apiv1/jobs" else "rollout_id"
        shown = {item[name] for item in response.json()["data"]["items"]}
        assert not {getattr(own.edge, name), getattr(own.edge, f"held_{name}")} & shown
        assert getattr(other.edge, name) in shown
        return
    is_file_or_count = route.path.endswith(("/counts", "/export")) and "safety-events/export" not in route.path
    if is_file_or_count and not route.path.startswith("/apiv1/devices"):
        check_counts_or_file(fixture, area, response)
    elif area == "commands":
        name = "id" if route.path.endswith("/sites") else "site_id"
        own_part = {other.edge.site_id, other.edge.empty_site_id}
        assert {item[name] for item in response.json()["items"]} <= own_part
    elif area == "events":
        shown = {item["client_id"] for item in response.json()["items"]}
        assert own.events.client_id not in shown
        assert len(shown) <= 2
    elif route.path.startswith(("/apiv1/devices", "/apiv1/groups", "/apiv1/certificates", "/apiv1/cas")):
        check_fleet_filtered(fixture, route, response)
    elif area == "updates" and route.path == "/apiv1/outbox":
        assert {item["device_id"] for item in response.json()["data"]["items"]} == {other.device_id}
    elif area == "updates":
        (outbox,) = response.json()["data"]["items"]
        assert (outbox["source"], outbox["failed"]) == ("server", 1)
    else:
        assert not {own.person_id, own.key_id} & {item["id"] for item in response.json()["data"]["items"]}


def check_fleet_filtered(fixture: Fixture, route: Route, response: httpx.Response) -> None:
    other = fixture.other
    if route.path.endswith("/counts"):
        assert response.json()["data"]["total"] == {"value": 1, "is_exact": True}
    elif route.path.endswith("/export"):
        assert [line["user_id"] for line in csv.DictReader(response.text.splitlines())] == [str(other.user_id)]
    else:
        # No certificate is issued.
        shown = set() if route.path == "/apiv1/certificates" else {other.user_id}
        assert {item["user_id"] for item in response.json()["data"]["items"]} == shown


def check_counts_or_file(fixture: Fixture, area: str, response: httpx.Response) -> None:
    """Counts and files show the caller's own part, too: here something of it, and nothing of the other's."""
    own, other = fixture.own, fixture.other
    if response.headers["content-type"].startswith("text/csv"):
        (name, shown, hidden) = {
            "commands": ("site_id", other.edge.site_id, own.edge.site_id),
            "events": ("client_id", other.events.client_id, own.events.client_id),
            "updates": ("device_id", other.device_id, own.device_id),
        }[area]
        listed = {line[name] for line in csv.DictReader(response.text.removeprefix("\ufeff").splitlines())}
        assert str(shown) in listed
        assert str(hidden) not in listed
    else:
        body = response.json()
        counted = body.get("data", body)
        total = counted["total"]
        assert total["is_exact"]
        assert 1 <= total["value"] <= 5
        assert sum(each["value"] for each in counted["states"].values()) == total["value"]


CHANGING = [
    route
    for route in ROUTES
    if route_name(route) not in OWN and route.method != "GET" and entry_of(route)[1] not in (WHOLE, PEOPLE, GIVEN)
]


@pytest.mark.parametrize("route", CHANGING, ids=route_name)
def test_lowest_role_in_narrowest_scope_is_enough(fixture: Fixture, route: Route) -> None:
    server, area = fixture.server, entry_of(route)[0]
    resources = fixture.own
    if area == "updates":
        resources = server.add_resources(server.fleet.user_id)
    elif area == "commands":
        resources = resources._replace(edge=server.add_edge_resources())
    else:
        resources = resources._replace(events=server.add_event_resources())
    headers = key_with(server, ROLE_NEEDED[route.access], *resource_scopes(server, area, resources))
    response = call(server, route, resources, headers)
    assert response.status_code == route.status, response.text


MIXED = [
    route
    for route in ROUTES
    if route_name(route) not in OWN and ROLE_NEEDED[route.access] > Role.viewer and entry_of(route)[1] != LIST
]


@pytest.mark.parametrize("route", MIXED, ids=route_name)
def test_role_elsewhere_does_not_add_up_with_scope_here(fixture: Fixture, route: Route) -> None:
    """A viewer here who is an administrator of another resource of the area, and of another area."""
    server, (area, touches) = fixture.server, entry_of(route)
    named = "commands" if area == "everything" else area
    here, there = (resource_scopes(server, named, each) for each in (fixture.own, fixture.other))
    far = [each for each in AREAS if each != named]
    grants = [(Role.viewer, scope) for scope in here] + [(Role.admin, scope) for scope in (*there, *far)]
    headers = headers_of(server, checked_grants(grants))
    before = server.dump()
    response = call(server, route, fixture.own, headers)
    assert response.status_code == OUTSIDE[touches], response.text
    assert server.dump() == before


def test_retry_of_all_rows_concerns_the_users_in_scope(fixture: Fixture) -> None:
    server = fixture.server
    own, other = (server.add_resources(user_id) for user_id in (server.fleet.user_id, server.fleet.other_id))
    headers = key_with(server, Role.operator, f"updates:{own.user_id}")
    assert server.client.post("/apiv1/outbox/retry", headers=headers).json()["data"]["retried"] >= 1
    status: dict[int, Any] = {
        row_id: server.client.get(f"/apiv1/outbox/{row_id}", headers=fixture.headers[Role.admin, "all", "updates"])
        for row_id in (own.row_id, other.row_id)
    }
    assert status[own.row_id].json()["data"]["status"] == "PENDING"
    assert status[other.row_id].json()["data"]["status"] == "FAILED"
