"""Every route, knocked at by everybody who may not enter: refused as its access says, and nothing has changed.

The tables below say who is refused where in words of their own; they are not made from the gate's.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from restante.server.app import Node
from restante.web.routes import Access, Route
from tests.server.edge_things import is_edge
from tests.server.event_things import is_event, is_signals
from tests.server.good_bodies import BODIES, good_body
from tests.server.inhabited import ABSENT_ID, Callers, Inhabited, Things, fill_path
from tests.server.route_table import every_route, route_name

STRANGERS = {
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
NO_DEVICES = {
    "device under another user": 403,
    "revoked device": 403,
    "absent device": 403,
    "viewer key": 401,
    "operator key": 401,
    "admin key": 401,
    "owner": 401,
    "admin": 401,
}
ANOTHERS = {"another operator": 403, "admin": 403}
TOO_LITTLE = {"viewer key": 403, "viewer": 403}

CLIENTS = {"client": 401, "suspended client": 401}

MACHINES = DEVICES | COLLECTORS | CLIENTS
REFUSED: dict[Access, dict[str, int]] = {
    Access.device: STRANGERS | NO_DEVICES | COLLECTORS | CLIENTS,
    Access.read: STRANGERS | MACHINES | ANOTHERS,
    Access.operate: STRANGERS | MACHINES | ANOTHERS | TOO_LITTLE | {"owner, from another origin": 403},
    Access.oversee: STRANGERS | MACHINES | {"owner": 403, "viewer": 403, "another operator": 403},
    Access.steer: STRANGERS
    | MACHINES
    | TOO_LITTLE
    | {"owner": 403, "another operator": 403, "admin, from another origin": 403},
}
ADMITTED: dict[Access, list[str]] = {
    Access.device: ["device"],
    Access.read: ["owner", "viewer key", "operator key", "approver key", "admin key"],
    Access.operate: ["owner", "operator key", "approver key", "admin key"],
    Access.oversee: ["admin", "viewer key", "operator key", "admin key"],
    Access.steer: ["admin", "operator key", "admin key"],
}
# The sites of edge commands are nobody's in particular: everybody who may look sees all, and the role decides.
EDGE_REFUSED: dict[Access, dict[str, int]] = {
    Access.collector: STRANGERS
    | DEVICES
    | CLIENTS
    | {"collector with an old token": 401, "revoked collector": 401}
    | {"viewer key": 401, "operator key": 401, "approver key": 401, "admin key": 401, "owner": 401, "admin": 401},
    Access.read: STRANGERS | MACHINES,
    Access.operate: STRANGERS | MACHINES | TOO_LITTLE | {"owner, from another origin": 403},
    Access.approve: STRANGERS
    | MACHINES
    | TOO_LITTLE
    | {"operator key": 403, "owner": 403, "another operator": 403, "admin, from another origin": 403},
    Access.administer: STRANGERS
    | MACHINES
    | TOO_LITTLE
    | {"operator key": 403, "owner": 403, "approver key": 403, "approver": 403, "admin, from another origin": 403},
}
EDGE_ADMITTED: dict[Access, list[str]] = {
    Access.collector: ["collector"],
    Access.read: ["viewer", "owner", "another operator", "approver", "admin", "viewer key", "admin key"],
    Access.operate: ["owner", "another operator", "approver", "admin", "operator key", "approver key", "admin key"],
    Access.approve: ["approver", "admin", "approver key", "admin key"],
    Access.administer: ["admin", "admin key"],
}
# Clients and their events are nobody's in particular, either.
EVENT_REFUSED: dict[Access, dict[str, int]] = {
    Access.client: STRANGERS
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
# Receivers of shared signals: as other clients, by the scopes of their tokens.
SIGNALS_REFUSED = dict.fromkeys((Access.signals_read, Access.signals_manage), EVENT_REFUSED[Access.client])
# A route that anybody may call is so by being named here, and not by an oversight.
OPEN = {
    "POST /auth/device",
    "POST /auth/refresh",
    "POST /auth/general",
    "GET /device",
    "POST /device",
    "POST /device/sign-in",
    "POST /device/sign-out",
    "POST /apiv1/device/registration",
    "POST /token",
    "GET /jwks.json",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/ssf-configuration",
    "GET /developer",
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
def inhabited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inhabited]:
    inhabited = Inhabited(tmp_path_factory.mktemp("doors"))
    yield inhabited
    inhabited.close()


@pytest.fixture(scope="module")
def things(inhabited: Inhabited) -> Things:
    return inhabited.add_things(inhabited.world.user_id)


@pytest.fixture(scope="module")
def others_things(inhabited: Inhabited) -> Things:
    return inhabited.add_things(inhabited.world.other_id)


@pytest.fixture(scope="module")
def callers(inhabited: Inhabited, things: Things) -> Callers:
    return Callers(inhabited, things)


def path_for(route: Route, caller: str, things: Things, callers: Callers) -> str:
    """The path to the owner's things; a viewer's is their own, so that it is the role that is too little."""
    if caller == "viewer":
        return fill_path(route, things._replace(user_id=callers.viewer_id))
    return fill_path(route, things)


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_who_may_not_enter_is_refused_and_changes_nothing(
    inhabited: Inhabited, things: Things, callers: Callers, route: Route
) -> None:
    body = good_body(inhabited, route, things)
    before = inhabited.dump()
    for caller, status in refused_at(route)[route.access].items():
        if "another origin" in caller and route.method == "GET":
            continue
        path = path_for(route, caller, things, callers)
        answer = inhabited.ask(route, path, callers.headers[caller], body)
        assert answer.status_code == status, f"{caller}: {answer.text}"
        check_refusal(route, answer)
    assert inhabited.dump() == before


def refused_at(route: Route) -> dict[Access, dict[str, int]]:
    if is_edge(route):
        return EDGE_REFUSED
    if is_signals(route):
        return SIGNALS_REFUSED
    return EVENT_REFUSED if is_event(route) else REFUSED


def check_refusal(route: Route, answer: httpx.Response) -> None:
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == (answer.status_code == 401)
    if is_event(route):
        assert "x-fapi-interaction-id" in answer.headers
        assert (answer.content == b"") == (answer.status_code == 401)
        assert not answer.content or answer.json()["Code"] == "403 Forbidden"
        return
    assert answer.headers["content-type"] == "application/json"
    if is_signals(route):
        assert answer.json()["err"] == {401: "authentication_failed", 403: "access_denied"}[answer.status_code]
    elif is_edge(route):
        assert set(answer.json()) == {"error", "message"}
        assert answer.json()["error"] == EDGE_CODES[answer.status_code]
        assert answer.json()["message"]
    else:
        assert set(answer.json()) == {"error"}
        error = answer.json()["error"]
        assert error["code"] == CODES[answer.status_code]
        assert error["what"]


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_who_may_enter_is_admitted(inhabited: Inhabited, callers: Callers, route: Route) -> None:
    """The control: the same requests succeed for the right caller, so it was the caller that was refused above."""
    if is_edge(route):
        check_edge_admits(inhabited, callers, route)
        return
    if is_event(route) or is_signals(route):
        check_event_admits(inhabited, callers, route)
        return
    for caller in ADMITTED[route.access]:
        things = inhabited.add_things(inhabited.world.user_id)
        headers = callers.headers[caller]
        if caller == "device":
            token = inhabited.node.tokens.mint(things.user_id, things.device_id)
            inhabited.issue_and_wrap(things)
            headers = {"authorization": f"Bearer {token}"}
        answer = inhabited.ask(route, fill_path(route, things), headers, good_body(inhabited, route, things))
        assert answer.status_code == route.status, f"{caller}: {answer.text}"


def check_edge_admits(inhabited: Inhabited, callers: Callers, route: Route) -> None:
    for caller in EDGE_ADMITTED[route.access]:
        things = callers.things._replace(edge=inhabited.add_edge_things())
        headers = callers.headers[caller]
        if caller == "collector":
            headers = {"authorization": f"Bearer {things.edge.token}"}
        path = fill_path(route, things) + ("?site_id=1" if route.path.endswith("/admin/telemetry") else "")
        answer = inhabited.ask(route, path, headers, good_body(inhabited, route, things))
        assert answer.status_code == route.status, f"{caller}: {answer.text}"


def check_event_admits(inhabited: Inhabited, callers: Callers, route: Route) -> None:
    for caller in ["client"] if is_signals(route) else EVENT_ADMITTED[route.access]:
        things = callers.things._replace(events=inhabited.add_event_things())
        headers = callers.headers[caller]
        if caller == "client":
            headers = {"authorization": f"Bearer {things.events.token_for(route)}"}
        answer = inhabited.ask(route, fill_path(route, things), headers, good_body(inhabited, route, things))
        assert answer.status_code == route.status, f"{caller}: {answer.text}"


def test_open_routes_are_the_ones_we_know() -> None:
    found = {route_name(route) for route in every_route() if route.access is Access.open}
    assert {name for name in found if not name.startswith("GET /assets/")} == OPEN


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_what_changes_things_is_not_for_those_who_may_only_look(route: Route) -> None:
    looking = {Access.read, Access.oversee}
    changing = {Access.operate, Access.steer, Access.approve, Access.administer}
    machines = {Access.device, Access.collector, Access.client, Access.signals_read, Access.signals_manage}
    assert route.access in machines | (looking if route.method == "GET" else changing)


def test_every_access_in_use_is_in_the_tables() -> None:
    used = {route.access for route in GUARDED if not (is_edge(route) or is_event(route) or is_signals(route))}
    assert used == set(REFUSED) == set(ADMITTED)
    used_of_edge = {route.access for route in GUARDED if is_edge(route)}
    assert used_of_edge == set(EDGE_REFUSED) == set(EDGE_ADMITTED)
    used_of_events = {route.access for route in GUARDED if is_event(route)}
    assert used_of_events <= set(EVENT_REFUSED) == set(EVENT_ADMITTED)


def test_every_route_with_a_body_has_a_good_one() -> None:
    with_body = {(route.method, route.path) for route in every_route() if route.body_type is not None}
    assert with_body == set(BODIES)


IDS_BELOW_THE_USER = ("device_id", "ca_id", "acct_id", "certificate_id", "cert_id")


def ids_below_the_user(route: Route) -> list[str]:
    return [name for name in IDS_BELOW_THE_USER if f"{{{name}}}" in route.path]


OWNED = [route for route in GUARDED if ids_below_the_user(route) and not is_edge(route)]


@pytest.mark.parametrize("route", OWNED, ids=route_name)
def test_anothers_and_absent_look_the_same(
    inhabited: Inhabited, things: Things, others_things: Things, callers: Callers, route: Route
) -> None:
    body = good_body(inhabited, route, things)
    before = inhabited.dump()
    for name in ids_below_the_user(route):
        field = "certificate_id" if name == "cert_id" else name
        ids: list[Any] = [getattr(others_things, field), ABSENT_ID]
        for caller in {"device"} if route.access is Access.device else {"owner", "admin key"}:
            anothers, absent = (
                inhabited.ask(route, fill_path(route, things._replace(**{field: id_})), callers.headers[caller], body)
                for id_ in ids
            )
            assert anothers.status_code == 404, f"{caller}, {name}: {anothers.text}"
            assert anothers.json()["error"]["code"] == 5003
            check_same(anothers, absent)
    assert inhabited.dump() == before


IDS_IN_BODIES = [
    ("/apiv1/users/{user_id}/certificates", "acct_id", "acct_id"),
    ("/apiv1/users/{user_id}/acme-accounts", "ca_id", "ca_id"),
    ("/apiv1/users/{user_id}/devices/{device_id}/certificates", "cert_id", "certificate_id"),
    ("/apiv1/users/{user_id}/devices/{device_id}/cas", "ca_id", "ca_id"),
]


@pytest.mark.parametrize(("path", "field", "thing"), IDS_IN_BODIES)
def test_anothers_and_absent_look_the_same_in_bodies(
    inhabited: Inhabited,
    things: Things,
    others_things: Things,
    callers: Callers,
    path: str,
    field: str,
    thing: str,
) -> None:
    route = next(each for each in GUARDED if (each.method, each.path) == ("POST", path))
    body = good_body(inhabited, route, things)
    assert body is not None
    before = inhabited.dump()
    anothers, absent = (
        inhabited.ask(route, fill_path(route, things), callers.headers["owner"], {**body, field: id_})
        for id_ in (getattr(others_things, thing), ABSENT_ID)
    )
    assert anothers.status_code in (400, 404)
    check_same(anothers, absent)
    assert inhabited.dump() == before


@pytest.mark.parametrize("ob_type", ["cert", "ca"])
def test_anothers_and_absent_look_the_same_in_install_items(
    inhabited: Inhabited, things: Things, others_things: Things, callers: Callers, ob_type: str
) -> None:
    path = f"/apiv1/users/{things.user_id}/devices/{things.device_id}/install-config"
    foreign = others_things.certificate_id if ob_type == "cert" else others_things.ca_id
    before = inhabited.dump()
    anothers, absent = (
        inhabited.client.put(
            path,
            headers=callers.headers["owner"],
            json={"installs": [{"id": "a", "type": "copy", "ob_type": ob_type, "ob_id": id_}]},
        )
        for id_ in (foreign, ABSENT_ID)
    )
    assert anothers.status_code == 400
    assert anothers.json()["error"]["what"].startswith("installs[0].ob_id: ")
    check_same(anothers, absent)
    assert inhabited.dump() == before


def check_same(one: httpx.Response, other: httpx.Response) -> None:
    def seen(answer: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
        headers = [pair for pair in answer.headers.multi_items() if pair[0] != "date"]
        return answer.status_code, answer.content, headers

    assert seen(one) == seen(other)


@pytest.mark.parametrize("action", ["device_verify"])
def test_letting_a_device_in_takes_an_operator(inhabited: Inhabited, callers: Callers, action: str) -> None:
    body = {"action": action, "user_code": "ABCD-EFGH", "approve": True}
    expected = {"nobody": 401, "garbage cookie": 401, "expired session": 401, "device": 401, "admin key": 401}
    expected |= {"viewer": 403, "owner, from another origin": 403, "owner": 404}
    before = inhabited.dump()
    for caller, status in expected.items():
        answer = inhabited.client.post("/auth/device", headers=callers.headers[caller], json=body)
        assert answer.status_code == status, f"{caller}: {answer.text}"
    assert inhabited.dump() == before


def test_the_node_serves_what_was_tested(inhabited: Inhabited) -> None:
    node: Node = inhabited.node
    assert [route_name(route) for route in node.routes()] == [route_name(route) for route in every_route()]
