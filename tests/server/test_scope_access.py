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
USER = "/apiv1/users/{user_id}"
EDGE = "/api/edge/v1/admin"

# What a route touches, which decides how a resource outside the caller's scope is answered:
USERS = "a user of the path: 403, as for another user's resources"
RESOURCE = "a resource of the path: 404, as for a missing one"
BODY = "a resource that the body names: 400, as for a missing one"
SHARED = "what is the same for all resources of the area"
LIST = "a list: only what is within the scope"
WHOLE = "the whole area: 403"
JOB = "a job of a site: 404, as for a missing one, also for a caller of another area"
JOBS = "a list of jobs of all areas: only those within the scope"
PEOPLE = "people and keys: 404, as for missing ones"
GIVEN = "grants that the caller gives: 403"

TOUCHES: dict[str, dict[str, str]] = {
    "updates": {
        "GET /apiv1/devices": LIST,
        "GET /apiv1/devices/counts": LIST,
        "GET /apiv1/devices/export": LIST,
        "GET /apiv1/groups": LIST,
        "POST /apiv1/groups": BODY,
        "GET /apiv1/groups/{group_id}": RESOURCE,
        "PUT /apiv1/groups/{group_id}": RESOURCE,
        "DELETE /apiv1/groups/{group_id}": RESOURCE,
        "GET " + USER + "/devices/{device_id}/signals": USERS,
        "GET " + USER + "/devices/{device_id}/reports": USERS,
        "GET " + USER + "/devices/{device_id}/why": USERS,
        "PUT " + USER + "/devices/{device_id}/tags/{tag}": USERS,
        "DELETE " + USER + "/devices/{device_id}/tags/{tag}": USERS,
        "GET /apiv1/devices/{device_id}": RESOURCE,
        "GET /apiv1/outbox": LIST,
        "GET /apiv1/outbox/counts": LIST,
        "GET /apiv1/outbox/export": LIST,
        "GET /apiv1/outboxes": LIST,
        "POST /apiv1/outbox/retry": LIST,
        "GET /apiv1/outbox/{row_id}": RESOURCE,
        "POST /apiv1/outbox/{row_id}/retry": RESOURCE,
        "POST /apiv1/devices/bulk": BODY,
        "POST /apiv1/outbox/bulk": LIST,
        "GET /apiv1/poll-boost": WHOLE,
        "PUT /apiv1/poll-boost": WHOLE,
        "DELETE /apiv1/poll-boost": WHOLE,
        "POST " + USER + "/devices": USERS,
        "GET " + USER + "/devices": USERS,
        "GET " + USER + "/devices/{device_id}": USERS,
        "DELETE " + USER + "/devices/{device_id}": USERS,
        "POST " + USER + "/devices/{device_id}/revoke": USERS,
        "POST " + USER + "/apikeys": USERS,
        "GET " + USER + "/apikeys": USERS,
        "DELETE " + USER + "/apikeys/{apikey_id}": USERS,
        "GET " + USER + "/devices/{device_id}/install-config": USERS,
        "PUT " + USER + "/devices/{device_id}/install-config": USERS,
        "GET " + USER + "/devices/{device_id}/install-config/history": USERS,
        "GET " + USER + "/devices/{device_id}/install-config/history/{version}": USERS,
        "POST " + USER + "/devices/{device_id}/install-config/restore": USERS,
        "POST " + USER + "/certificates": USERS,
        "GET " + USER + "/certificates": USERS,
        "POST " + USER + "/certificates/import": USERS,
        "GET " + USER + "/certificates/{certificate_id}": USERS,
        "DELETE " + USER + "/certificates/{certificate_id}": USERS,
        "POST " + USER + "/certificates/{certificate_id}/issues": USERS,
        "GET " + USER + "/devices/{device_id}/certificates": USERS,
        "POST " + USER + "/devices/{device_id}/certificates": USERS,
        "DELETE " + USER + "/devices/{device_id}/certificates/{cert_id}": USERS,
        "POST " + USER + "/cas": USERS,
        "GET " + USER + "/cas": USERS,
        "POST " + USER + "/cas/import": USERS,
        "GET " + USER + "/cas/{ca_id}": USERS,
        "DELETE " + USER + "/cas/{ca_id}": USERS,
        "GET " + USER + "/devices/{device_id}/cas": USERS,
        "POST " + USER + "/devices/{device_id}/cas": USERS,
        "DELETE " + USER + "/devices/{device_id}/cas/{ca_id}": USERS,
        "POST " + USER + "/acme-accounts": USERS,
        "GET " + USER + "/acme-accounts": USERS,
        "GET " + USER + "/acme-accounts/{acct_id}": USERS,
        "DELETE " + USER + "/acme-accounts/{acct_id}": USERS,
        "POST " + USER + "/devices/{device_id}/signals": USERS,
    },
    "commands": {
        "GET " + EDGE + "/telemetry": LIST,
        "GET " + EDGE + "/telemetry/{miner_id}": RESOURCE,
        "GET " + EDGE + "/safety-events": LIST,
        "GET " + EDGE + "/safety-events/counts": LIST,
        "GET " + EDGE + "/safety-events/export": LIST,
        "POST " + EDGE + "/rules": BODY,
        "GET " + EDGE + "/rules": LIST,
        "GET " + EDGE + "/rules/{rule_id}": RESOURCE,
        "PUT " + EDGE + "/rules/{rule_id}": RESOURCE,
        "PATCH " + EDGE + "/rules/{rule_id}": RESOURCE,
        "DELETE " + EDGE + "/rules/{rule_id}": RESOURCE,
        "POST " + EDGE + "/rules/{rule_id}/enable": RESOURCE,
        "POST " + EDGE + "/rules/{rule_id}/disable": RESOURCE,
        "GET " + EDGE + "/rules/{rule_id}/states": RESOURCE,
        "POST " + EDGE + "/sites": WHOLE,
        "GET " + EDGE + "/sites": LIST,
        "GET " + EDGE + "/sites/{site_id}": RESOURCE,
        "PATCH " + EDGE + "/sites/{site_id}": RESOURCE,
        "POST " + EDGE + "/sites/{site_id}/retire": RESOURCE,
        "PATCH " + EDGE + "/zones/{zone_id}": RESOURCE,
        "POST " + EDGE + "/zones/{zone_id}/retire": RESOURCE,
        "GET " + EDGE + "/miners/counts": LIST,
        "GET " + EDGE + "/miners/export": LIST,
        "GET " + EDGE + "/miners/{miner_id}": RESOURCE,
        "PATCH " + EDGE + "/miners/{miner_id}": RESOURCE,
        "POST " + EDGE + "/miners/{miner_id}/retire": RESOURCE,
        "POST " + EDGE + "/miners/{miner_id}/replace": RESOURCE,
        "POST " + EDGE + "/zones": BODY,
        "GET " + EDGE + "/zones": LIST,
        "POST " + EDGE + "/miners": BODY,
        "GET " + EDGE + "/miners": LIST,
        "POST " + EDGE + "/devices": BODY,
        "GET " + EDGE + "/devices": LIST,
        "GET " + EDGE + "/devices/counts": LIST,
        "GET " + EDGE + "/devices/export": LIST,
        "GET " + EDGE + "/devices/{device_id}": RESOURCE,
        "POST " + EDGE + "/devices/{device_id}/rotate": RESOURCE,
        "POST " + EDGE + "/devices/{device_id}/revoke": RESOURCE,
        "POST " + EDGE + "/devices/{device_id}/verify": RESOURCE,
        "DELETE " + EDGE + "/devices/{device_id}": RESOURCE,
        "PUT " + EDGE + "/devices/{device_id}/tags/{tag}": RESOURCE,
        "DELETE " + EDGE + "/devices/{device_id}/tags/{tag}": RESOURCE,
        "PUT " + EDGE + "/miners/{miner_id}/tags/{tag}": RESOURCE,
        "DELETE " + EDGE + "/miners/{miner_id}/tags/{tag}": RESOURCE,
        "POST " + EDGE + "/miners/bulk": BODY,
        "POST " + EDGE + "/commands/bulk": BODY,
        "POST /apiv1/rollouts": BODY,
        "GET /apiv1/rollouts": JOBS,
        "GET /apiv1/rollouts/{rollout_id}": JOB,
        "PATCH /apiv1/rollouts/{rollout_id}": JOB,
        "GET /apiv1/rollouts/{rollout_id}/laggards": JOB,
        "POST /apiv1/rollouts/{rollout_id}/pause": JOB,
        "POST /apiv1/rollouts/{rollout_id}/resume": JOB,
        "POST /apiv1/rollouts/{rollout_id}/advance": JOB,
        "POST /apiv1/rollouts/{rollout_id}/abort": JOB,
        "POST /apiv1/rollouts/{rollout_id}/roll-back": JOB,
        "POST /apiv1/rollouts/{rollout_id}/approve": JOB,
        "POST /apiv1/rollouts/{rollout_id}/deny": JOB,
        "GET /apiv1/jobs": JOBS,
        "GET /apiv1/jobs/{job_id}": JOB,
        "GET /apiv1/jobs/{job_id}/items": JOB,
        "POST /apiv1/jobs/{job_id}/pause": JOB,
        "POST /apiv1/jobs/{job_id}/resume": JOB,
        "POST /apiv1/jobs/{job_id}/abort": JOB,
        "POST /apiv1/jobs/{job_id}/approve": JOB,
        "POST /apiv1/jobs/{job_id}/deny": JOB,
        "POST " + EDGE + "/commands": BODY,
        "GET " + EDGE + "/commands": LIST,
        "GET " + EDGE + "/commands/counts": LIST,
        "GET " + EDGE + "/commands/export": LIST,
        "GET " + EDGE + "/commands/{command_id}": RESOURCE,
        "GET " + EDGE + "/commands/{command_id}/why": RESOURCE,
        "POST " + EDGE + "/commands/{command_id}/cancel": RESOURCE,
        "POST " + EDGE + "/commands/{command_id}/approve": RESOURCE,
        "POST " + EDGE + "/commands/{command_id}/deny": RESOURCE,
        "GET " + EDGE + "/approval-policy": SHARED,
        "PUT " + EDGE + "/approval-policy": WHOLE,
        "GET " + EDGE + "/audit": LIST,
        "GET " + EDGE + "/audit/export": LIST,
        "GET " + EDGE + "/audit/verify": WHOLE,
        "POST " + EDGE + "/audit/verify": WHOLE,
        "POST " + EDGE + "/audit/anchor": WHOLE,
    },
    "events": {
        "POST /admin/clients": WHOLE,
        "GET /admin/clients": LIST,
        "GET /admin/clients/counts": LIST,
        "GET /admin/clients/export": LIST,
        "GET /admin/clients/{client_id}": RESOURCE,
        "GET /admin/clients/{client_id}/why": RESOURCE,
        "PUT /admin/clients/{client_id}/tags/{tag}": RESOURCE,
        "DELETE /admin/clients/{client_id}/tags/{tag}": RESOURCE,
        "DELETE /admin/clients/{client_id}": RESOURCE,
        "POST /admin/clients/{client_id}/rotate": RESOURCE,
        "POST /admin/clients/{client_id}/suspend": RESOURCE,
        "POST /admin/clients/{client_id}/resume": RESOURCE,
        "GET /admin/clients/{client_id}/refusals": RESOURCE,
        "GET /admin/events/audit": LIST,
        "POST /admin/events": RESOURCE,
        "POST /admin/events/bulk": RESOURCE,
        "GET /admin/events": LIST,
        "GET /admin/events/counts": LIST,
        "GET /admin/events/export": LIST,
        "GET /admin/events/{jti}": RESOURCE,
        "POST /admin/events/{jti}/release": RESOURCE,
        "POST /admin/events/{jti}/drop": RESOURCE,
        "GET /admin/events/clients": LIST,
        "GET /admin/events/clients/{client_id}": RESOURCE,
        "POST /admin/events/clients/{client_id}/release": RESOURCE,
        "POST /admin/events/clients/{client_id}/drop": RESOURCE,
        "GET /admin/events/keys": WHOLE,
        "POST /admin/events/keys/rotate": WHOLE,
        "POST /admin/events/keys/{kid}/withdraw": WHOLE,
        "GET /admin/streams": LIST,
        "POST /admin/streams/{stream_id}/status": RESOURCE,
    },
    "everything": {
        "GET /apiv1/access-audit": WHOLE,
        "GET /apiv1/people": LIST,
        "GET /apiv1/people/{person_id}": PEOPLE,
        "POST /apiv1/people": GIVEN,
        "PUT /apiv1/people/{person_id}/password": PEOPLE,
        "PUT /apiv1/people/{person_id}/grants": PEOPLE,
        "POST /apiv1/people/{person_id}/suspend": PEOPLE,
        "POST /apiv1/people/{person_id}/resume": PEOPLE,
        "DELETE /apiv1/people/{person_id}": PEOPLE,
        "POST /apiv1/keys": GIVEN,
        "GET /apiv1/keys": LIST,
        "GET /apiv1/keys/{key_id}": PEOPLE,
        "PUT /apiv1/keys/{key_id}/grants": PEOPLE,
        "POST /apiv1/keys/{key_id}/suspend": PEOPLE,
        "POST /apiv1/keys/{key_id}/resume": PEOPLE,
        "DELETE /apiv1/keys/{key_id}": PEOPLE,
    },
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
    elif route.path.startswith(("/apiv1/devices", "/apiv1/groups")):
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
        assert {item["user_id"] for item in response.json()["data"]["items"]} == {other.user_id}


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
