"""Every route, called by every kind of caller without access: refused as its access requires, without any change.

The tables below state independently who is refused where; they are not derived from the tables of access control.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from restante.server.app import Node
from restante.web.access import IN_PERSON
from restante.web.routes import Access, Route
from tests.server.edge_resources import is_edge
from tests.server.event_resources import is_event, is_ssf
from tests.server.populated_server import ABSENT_ID, Callers, PopulatedServer, Resources, fill_path
from tests.server.route_table import every_route, route_name
from tests.server.valid_bodies import BODIES, valid_body

UNAUTHENTICATED = {
    "nobody": 401,
    "garbage": 401,
    "empty cookie": 401,
    "garbage cookie": 401,
    "revoked key": 401,
    "expired session": 401,
    "ended session": 401,
    "session and garbage": 401,
    "expired device token": 401,
}
COLLECTORS = {
    "collector": 401,
    "collector with an old token": 401,
    "revoked collector": 401,
}
DEVICES = {
    "device": 401,
    "device under another user": 401,
    "revoked device": 401,
    "absent device": 401,
}
REFUSED_DEVICES = {
    "device under another user": 403,
    "revoked device": 403,
    "absent device": 403,
    "viewer key": 401,
    "operator key": 401,
    "admin key": 401,
    "owner": 401,
    "admin": 401,
    "owner's key": 401,
}
OTHER_USERS = {"another operator": 403, "admin": 403, "another operator's key": 403, "admin's own key": 403}
# A key of a user opens only the resources of that user, whatever role the user has.
KEYS_OF_USERS = {"owner's key": 403, "admin's own key": 403}
ROLE_TOO_LOW = {"viewer key": 403, "viewer": 403}
# Of those refused with 403: whose token has too little, so that the response names the needed scope or role.
LACKS_ROLE_OR_SCOPE = ("viewer key", "operator key", "approver key", "client without the scope")

CLIENTS = {"client": 401, "suspended client": 401}

MACHINES = DEVICES | COLLECTORS | CLIENTS
REFUSED: dict[Access, dict[str, int]] = {
    Access.device: UNAUTHENTICATED | REFUSED_DEVICES | COLLECTORS | CLIENTS,
    Access.read: UNAUTHENTICATED | MACHINES | OTHER_USERS,
    Access.operate: UNAUTHENTICATED | MACHINES | OTHER_USERS | ROLE_TOO_LOW | {"owner, from another origin": 403},
    Access.own_read: UNAUTHENTICATED | MACHINES | {"viewer key": 403, "admin key": 403},
    Access.team_read: UNAUTHENTICATED | MACHINES,
    Access.team_operate: UNAUTHENTICATED | MACHINES | ROLE_TOO_LOW | {"owner, from another origin": 403},
    Access.fleet_read: UNAUTHENTICATED
    | MACHINES
    | KEYS_OF_USERS
    | {"owner": 403, "viewer": 403, "another operator": 403},
    Access.fleet_operate: UNAUTHENTICATED
    | MACHINES
    | KEYS_OF_USERS
    | ROLE_TOO_LOW
    | {"owner": 403, "another operator": 403, "admin, from another origin": 403},
}
# Jobs have no owner: the role decides, for what the job may touch. The jobs of these tests are those of a site.
REFUSED[Access.jobs_read] = UNAUTHENTICATED | MACHINES
REFUSED[Access.jobs_operate] = REFUSED[Access.jobs_read] | ROLE_TOO_LOW | {"owner, from another origin": 403}
REFUSED[Access.jobs_approve] = REFUSED[Access.jobs_operate] | {
    "operator key": 403,
    "owner": 403,
    "approver key": 403,
    "admin key": 403,
    "admin, from another origin": 403,
}
NOT_ADMIN = {"operator key": 403, "owner": 403, "approver key": 403, "approver": 403}
REFUSED[Access.administer] = REFUSED[Access.manage_access] = (
    UNAUTHENTICATED | MACHINES | KEYS_OF_USERS | ROLE_TOO_LOW | NOT_ADMIN | {"admin, from another origin": 403}
)
# A person that a key made could approve what the key sends.
REFUSED[Access.manage_people] = REFUSED[Access.manage_access] | {"admin key": 403}
ADMITTED: dict[Access, list[str]] = {
    Access.device: ["device"],
    Access.read: ["owner", "owner's key", "viewer key", "operator key", "approver key", "admin key"],
    Access.operate: ["owner", "owner's key", "operator key", "approver key", "admin key"],
    Access.own_read: ["owner", "viewer", "admin", "owner's key", "admin's own key"],
    Access.team_read: ["owner", "owner's key", "viewer key", "operator key", "approver key", "admin key", "admin"],
    Access.team_operate: ["owner", "owner's key", "operator key", "approver key", "admin key", "admin"],
    Access.fleet_read: ["admin", "viewer key", "operator key", "admin key"],
    Access.fleet_operate: ["admin", "operator key", "admin key"],
    Access.administer: ["admin", "admin key"],
    Access.manage_access: ["admin", "admin key"],
    Access.jobs_read: ["viewer", "owner", "another operator", "approver", "admin", "viewer key", "admin key"],
    Access.jobs_operate: ["owner", "another operator", "approver", "admin", "operator key", "admin key"],
    Access.jobs_approve: ["approver", "admin"],
    Access.manage_people: ["admin"],
}
# Sites of edge commands have no owner: only the role decides.
EDGE_REFUSED: dict[Access, dict[str, int]] = {
    Access.collector: UNAUTHENTICATED
    | DEVICES
    | CLIENTS
    | {"collector with an old token": 401, "revoked collector": 401}
    | {"viewer key": 401, "operator key": 401, "approver key": 401, "admin key": 401, "owner": 401, "admin": 401},
    Access.read: UNAUTHENTICATED | MACHINES | KEYS_OF_USERS,
    Access.operate: UNAUTHENTICATED | MACHINES | KEYS_OF_USERS | ROLE_TOO_LOW | {"owner, from another origin": 403},
    Access.approve: UNAUTHENTICATED
    | MACHINES
    | KEYS_OF_USERS
    | ROLE_TOO_LOW
    | {"operator key": 403, "owner": 403, "another operator": 403, "admin, from another origin": 403},
    Access.administer: UNAUTHENTICATED
    | MACHINES
    | KEYS_OF_USERS
    | ROLE_TOO_LOW
    | {"operator key": 403, "owner": 403, "approver key": 403, "approver": 403, "admin, from another origin": 403},
}
# Approval needs a person: a key does not prove one.
EDGE_REFUSED[Access.approve_in_person] = EDGE_REFUSED[Access.approve] | {"approver key": 403, "admin key": 403}
EDGE_REFUSED[Access.older_collector] = EDGE_REFUSED[Access.collector]
EDGE_ADMITTED: dict[Access, list[str]] = {
    Access.collector: ["collector"],
    Access.older_collector: ["collector", "collector with a key", "collector with a key and a token"],
    Access.read: ["viewer", "owner", "another operator", "approver", "admin", "viewer key", "admin key"],
    Access.operate: ["owner", "another operator", "approver", "admin", "operator key", "approver key", "admin key"],
    Access.approve: ["approver", "admin", "approver key", "admin key"],
    Access.approve_in_person: ["approver", "admin"],
    Access.administer: ["admin", "admin key"],
}
# Clients and their events have no owner, either.
EVENT_REFUSED: dict[Access, dict[str, int]] = {
    Access.client: UNAUTHENTICATED
    | DEVICES
    | COLLECTORS
    | {"suspended client": 401, "client with an expired token": 401, "client without the scope": 403}
    | {"viewer key": 401, "operator key": 401, "approver key": 401, "admin key": 401, "owner": 401, "admin": 401},
    **{access: EDGE_REFUSED[access] for access in (Access.read, Access.operate, Access.administer)},
}
EVENT_ADMITTED: dict[Access, list[str]] = {
    Access.client: ["client"],
    **{access: EDGE_ADMITTED[access] for access in (Access.read, Access.operate, Access.administer)},
}
# Receivers of Shared Signals: like other clients, by the scopes of their tokens.
EVENT_REFUSED[Access.subscriber] = EVENT_REFUSED[Access.client]
EVENT_ADMITTED[Access.subscriber] = EVENT_ADMITTED[Access.client]
SSF_REFUSED = dict.fromkeys((Access.ssf_read, Access.ssf_manage), EVENT_REFUSED[Access.client])
# All open routes, so that no route is open by mistake.
OPEN = {
    "POST /auth/device",
    "POST /auth/refresh",
    "POST /auth/general",
    "POST /auth/cli",
    "GET /auth/status",
    "GET /device",
    "POST /device",
    "POST /device/sign-in",
    "POST /device/sign-out",
    "POST /apiv1/device/registration",
    "POST /token",
    "GET /jwks.json",
    "GET /clients/{client_id}/jwks.json",
    "GET /crl/{ca_id}/{serial}/list.crl",
    "GET /crl/{ca_id}/{serial}/list.pem",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/ssf-configuration",
    "GET /developer",
    "GET /developer/client",
    "POST /developer/session",
    "POST /developer/sign-out",
    "POST /developer/test-event",
    "GET /health",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /docs",
}
CODES = {401: 5018, 403: 5022}
EDGE_CODES = {401: "UNAUTHORIZED", 403: "FORBIDDEN"}

GUARDED = [route for route in every_route() if route.access is not Access.open]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PopulatedServer]:
    server = PopulatedServer(tmp_path_factory.mktemp("access"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def resources(server: PopulatedServer) -> Resources:
    return server.add_resources(server.fleet.user_id)


@pytest.fixture(scope="module")
def other_resources(server: PopulatedServer) -> Resources:
    return server.add_resources(server.fleet.other_id)


@pytest.fixture(scope="module")
def callers(server: PopulatedServer, resources: Resources) -> Callers:
    return Callers(server, resources)


def path_for(route: Route, caller: str, resources: Resources, callers: Callers) -> str:
    """The path of the owner's resources; for the viewer with its own user id, so that only its role is insufficient."""
    if caller == "viewer":
        return fill_path(route, resources._replace(user_id=callers.viewer_id))
    return fill_path(route, resources)


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_caller_without_access_is_refused_and_changes_nothing(
    server: PopulatedServer, resources: Resources, callers: Callers, route: Route
) -> None:
    body = valid_body(server, route, resources)
    before = server.dump()
    for caller, status in refused_callers(route)[route.access].items():
        if "another origin" in caller and route.method == "GET":
            continue
        path = path_for(route, caller, resources, callers)
        response = server.request(route, path, callers.headers[caller], body)
        assert response.status_code == status, f"{caller}: {response.text}"
        check_error(route, response)
        check_challenge(route, caller, callers.headers[caller], response)
    assert server.dump() == before


def refused_callers(route: Route) -> dict[Access, dict[str, int]]:
    if is_edge(route):
        return EDGE_REFUSED
    if is_ssf(route):
        return SSF_REFUSED
    return EVENT_REFUSED if is_event(route) else REFUSED


def check_challenge(route: Route, caller: str, sent: dict[str, str], response: httpx.Response) -> None:
    """Check the header of RFC 6750: what it says depends on whether a token was sent, and what is wrong with it."""
    challenge = response.headers.get("www-authenticate")
    if response.status_code == 401:
        error = ', error="invalid_token"' if "authorization" in sent else ""
        assert challenge == 'Bearer realm="restante"' + error, caller
    elif challenge is not None:
        assert "authorization" in sent, caller
        assert re.fullmatch('Bearer realm="restante", error="insufficient_scope", scope="[a-z. ]+"', challenge), caller
    else:
        # No other role or scope would help.
        no_role_helps = route.access in (Access.own_read, *IN_PERSON, Access.manage_people)
        assert caller not in LACKS_ROLE_OR_SCOPE or no_role_helps, caller


def check_error(route: Route, response: httpx.Response) -> None:
    assert response.headers["cache-control"] == "no-store"
    if is_event(route):
        assert "x-fapi-interaction-id" in response.headers
        assert (response.content == b"") == (response.status_code == 401)
        assert not response.content or response.json()["Code"] == "403 Forbidden"
        return
    assert response.headers["content-type"] == "application/json"
    if is_ssf(route):
        assert response.json()["err"] == {401: "authentication_failed", 403: "access_denied"}[response.status_code]
    elif is_edge(route):
        assert set(response.json()) == {"error", "message"}
        assert response.json()["error"] == EDGE_CODES[response.status_code]
        assert response.json()["message"]
    else:
        assert set(response.json()) == {"error"}
        error = response.json()["error"]
        assert error["code"] == CODES[response.status_code]
        assert error["what"]


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_caller_with_access_is_admitted(server: PopulatedServer, callers: Callers, route: Route) -> None:
    """The control: the same requests succeed for a caller with access, so above only the caller was at fault."""
    if is_edge(route):
        check_edge_admits(server, callers, route)
        return
    if is_event(route) or is_ssf(route):
        check_event_admits(server, callers, route)
        return
    for caller in ADMITTED[route.access]:
        if (caller, route_name(route)) == ("owner's key", "POST /apiv1/users/{user_id}/apikeys"):
            continue  # an API key cannot create API keys: see test_routes_apikeys
        resources = server.add_resources(server.fleet.user_id)
        headers = callers.headers[caller]
        if caller == "device":
            token = server.node.identity.device_tokens.mint(resources.user_id, resources.device_id)
            server.issue_and_wrap(resources)
            headers = {"authorization": f"Bearer {token}"}
        response = server.request(route, fill_path(route, resources), headers, valid_body(server, route, resources))
        assert response.status_code == route.status, f"{caller}: {response.text}"


def check_edge_admits(server: PopulatedServer, callers: Callers, route: Route) -> None:
    for caller in EDGE_ADMITTED[route.access]:
        resources = callers.resources._replace(edge=server.add_edge_resources())
        token = resources.edge.token
        headers = {
            "collector": {"authorization": f"Bearer {token}"},
            "collector with a key": {"x-collector-key": token},
            "collector with a key and a token": {"authorization": f"Bearer {token}", "x-collector-key": token},
        }.get(caller) or callers.headers[caller]
        path = fill_path(route, resources) + ("?site_id=1" if route.path.endswith("/admin/telemetry") else "")
        response = server.request(route, path, headers, valid_body(server, route, resources))
        assert response.status_code == route.status, f"{caller}: {response.text}"


def check_event_admits(server: PopulatedServer, callers: Callers, route: Route) -> None:
    for caller in ["client"] if is_ssf(route) else EVENT_ADMITTED[route.access]:
        resources = callers.resources._replace(events=server.add_event_resources())
        headers = callers.headers[caller]
        if caller == "client":
            headers = {"authorization": f"Bearer {resources.events.token_for(route)}"}
        response = server.request(route, fill_path(route, resources), headers, valid_body(server, route, resources))
        assert response.status_code == route.status, f"{caller}: {response.text}"


def test_open_routes_are_the_listed_ones() -> None:
    found = {route_name(route) for route in every_route() if route.access is Access.open}
    assert {name for name in found if not name.startswith("GET /assets/")} == OPEN


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_changing_route_needs_more_than_read_access(route: Route) -> None:
    reading = {Access.read, Access.own_read, Access.team_read, Access.fleet_read, Access.jobs_read}
    changing = {Access.operate, Access.team_operate, Access.fleet_operate, Access.approve, Access.approve_in_person}
    changing |= {Access.administer, Access.manage_access, Access.manage_people, Access.jobs_operate}
    changing |= {Access.jobs_approve}
    clients = {Access.client, Access.subscriber, Access.ssf_read, Access.ssf_manage}
    machines = {Access.device, Access.collector, Access.older_collector, *clients}
    administering = {Access.administer, Access.manage_access}
    assert route.access in machines | (reading | administering if route.method == "GET" else changing)


def test_every_access_in_use_is_in_the_tables() -> None:
    used = {route.access for route in GUARDED if not (is_edge(route) or is_event(route) or is_ssf(route))}
    assert used == set(REFUSED) == set(ADMITTED)
    used_by_edge = {route.access for route in GUARDED if is_edge(route)}
    assert used_by_edge == set(EDGE_REFUSED) == set(EDGE_ADMITTED)
    used_by_events = {route.access for route in GUARDED if is_event(route)}
    assert used_by_events <= set(EVENT_REFUSED) == set(EVENT_ADMITTED)


def test_every_route_with_body_has_a_valid_body() -> None:
    with_body = {(route.method, route.path) for route in every_route() if route.body_type is not None}
    assert with_body == set(BODIES)


OWNED_IDS = ("device_id", "ca_id", "acct_id", "certificate_id", "cert_id", "apikey_id")


def owned_ids(route: Route) -> list[str]:
    return [name for name in OWNED_IDS if f"{{{name}}}" in route.path]


# On routes for the whole fleet no user's resource is foreign; scopes are in test_scope_access.
FLEET = (Access.fleet_read, Access.fleet_operate)
OWNED = [route for route in GUARDED if owned_ids(route) and not is_edge(route) and route.access not in FLEET]


def limited_callers(route: Route) -> set[str]:
    """Callers for whom the route opens the resources of one user, or of one device, only."""
    if route.access is Access.device:
        return {"device"}
    return {"owner"} if route.access is Access.team_read else {"owner", "admin key"}


@pytest.mark.parametrize("route", OWNED, ids=route_name)
def test_foreign_and_missing_resource_are_indistinguishable(
    server: PopulatedServer, resources: Resources, other_resources: Resources, callers: Callers, route: Route
) -> None:
    body = valid_body(server, route, resources)
    before = server.dump()
    for name in owned_ids(route):
        field = "certificate_id" if name == "cert_id" else name
        ids: list[Any] = [getattr(other_resources, field), ABSENT_ID]
        for caller in limited_callers(route):
            foreign_response, absent_response = (
                server.request(
                    route, fill_path(route, resources._replace(**{field: id_})), callers.headers[caller], body
                )
                for id_ in ids
            )
            assert foreign_response.status_code == 404, f"{caller}, {name}: {foreign_response.text}"
            assert foreign_response.json()["error"]["code"] == 5003
            check_same(foreign_response, absent_response)
    assert server.dump() == before


IDS_IN_BODIES = [
    ("/apiv1/users/{user_id}/certificates", "acct_id", "acct_id"),
    ("/apiv1/users/{user_id}/acme-accounts", "ca_id", "ca_id"),
    ("/apiv1/users/{user_id}/devices/{device_id}/certificates", "cert_id", "certificate_id"),
    ("/apiv1/users/{user_id}/devices/{device_id}/cas", "ca_id", "ca_id"),
]


@pytest.mark.parametrize(("path", "field", "resource"), IDS_IN_BODIES)
def test_foreign_and_missing_ids_in_bodies_are_indistinguishable(
    server: PopulatedServer,
    resources: Resources,
    other_resources: Resources,
    callers: Callers,
    path: str,
    field: str,
    resource: str,
) -> None:
    route = next(each for each in GUARDED if (each.method, each.path) == ("POST", path))
    body = valid_body(server, route, resources)
    assert body is not None
    before = server.dump()
    foreign_response, absent_response = (
        server.request(route, fill_path(route, resources), callers.headers["owner"], {**body, field: id_})
        for id_ in (getattr(other_resources, resource), ABSENT_ID)
    )
    assert foreign_response.status_code in (400, 404)
    check_same(foreign_response, absent_response)
    assert server.dump() == before


@pytest.mark.parametrize("ob_type", ["cert", "ca"])
def test_foreign_and_missing_ids_in_install_items_are_indistinguishable(
    server: PopulatedServer, resources: Resources, other_resources: Resources, callers: Callers, ob_type: str
) -> None:
    path = f"/apiv1/users/{resources.user_id}/devices/{resources.device_id}/install-config"
    foreign = other_resources.certificate_id if ob_type == "cert" else other_resources.ca_id
    before = server.dump()
    foreign_response, absent_response = (
        server.client.put(
            path,
            headers=callers.headers["owner"],
            json={"installs": [{"id": "a", "type": "copy", "ob_type": ob_type, "ob_id": id_}]},
        )
        for id_ in (foreign, ABSENT_ID)
    )
    assert foreign_response.status_code == 400
    assert foreign_response.json()["error"]["what"].startswith("installs[0].ob_id: ")
    check_same(foreign_response, absent_response)
    assert server.dump() == before


def check_same(one: httpx.Response, other: httpx.Response) -> None:
    def comparable(response: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
        headers = [pair for pair in response.headers.multi_items() if pair[0] != "date"]
        return response.status_code, response.content, headers

    assert comparable(one) == comparable(other)


@pytest.mark.parametrize("action", ["device_verify"])
def test_approving_a_device_needs_an_operator(server: PopulatedServer, callers: Callers, action: str) -> None:
    body = {"action": action, "user_code": "ABCD-EFGH", "approve": True}
    expected = {"nobody": 401, "garbage cookie": 401, "expired session": 401, "device": 401, "admin key": 401}
    expected |= {"viewer": 403, "owner, from another origin": 403, "owner": 404}
    before = server.dump()
    for caller, status in expected.items():
        response = server.client.post("/auth/device", headers=callers.headers[caller], json=body)
        assert response.status_code == status, f"{caller}: {response.text}"
    assert server.dump() == before


def test_node_serves_the_tested_routes(server: PopulatedServer) -> None:
    node: Node = server.node
    assert [route_name(route) for route in node.routes()] == [route_name(route) for route in every_route()]
