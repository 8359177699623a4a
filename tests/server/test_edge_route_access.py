"""Requests of collectors and operators with ids of another site's resources, and of missing resources.

Wherever an id could reveal that a resource exists at another site, both responses are the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from restante.commands.lifecycle import cancellation
from tests.server.edge_resources import EdgeResources
from tests.server.populated_server import ABSENT_ID, Callers, PopulatedServer, Resources
from tests.server.route_caller import TRAIL
from tests.server.route_table import route_named
from tests.server.valid_edge_bodies import EDGE_BODIES, HANDLER_DECODED_BODIES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PopulatedServer]:
    server = PopulatedServer(tmp_path_factory.mktemp("edge_access"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def resources(server: PopulatedServer) -> Resources:
    return server.add_resources(server.fleet.user_id)


@pytest.fixture(scope="module")
def callers(server: PopulatedServer, resources: Resources) -> Callers:
    return Callers(server, resources)


@pytest.fixture(scope="module")
def foreign(server: PopulatedServer) -> EdgeResources:
    return server.add_edge_resources()


def database_content(server: PopulatedServer) -> dict[str, Any]:
    """The content of all tables without the audit trail, which records refused ACKs, and the sequences of ids."""
    return {name: rows for name, rows in server.dump().items() if name not in TRAIL}


def comparable(response: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    headers = [pair for pair in response.headers.multi_items() if pair[0] != "date"]
    return response.status_code, response.content, headers


@pytest.mark.parametrize(
    "path", ["/api/edge/v1/commands/{}/ack", "/api/edge/v1/commands/{}/extend", "/api/collector/commands/{}/result"]
)
def test_command_of_another_site_is_refused_in_every_state(
    server: PopulatedServer, callers: Callers, foreign: EdgeResources, path: str
) -> None:
    """Leased, waiting, not approved, cancelled: a collector of another site gets the same response for all."""
    cancelled_id = server.add_edge_resources().command_id
    server.node.database.write_now(cancellation.cancel, server.node.commands.trail, cancelled_id, "tests")
    route = route_named("POST " + path.format("{command_id}"))
    body = EDGE_BODIES[route.method, route.path][0](foreign)
    before = database_content(server)
    responses = [
        server.request(route, route.path.replace("{command_id}", command_id), callers.headers["collector"], body)
        for command_id in (foreign.command_id, foreign.pending_id, foreign.approval_id, cancelled_id)
    ]
    assert responses[0].status_code == 403
    assert responses[0].json() == {
        "error": "ACCESS_DENIED",
        "message": "This device is not authorized for this site.",
    }
    assert {response.content for response in responses} == {responses[0].content}
    assert database_content(server) == before


def test_foreign_and_missing_zone_are_indistinguishable(
    server: PopulatedServer, callers: Callers, foreign: EdgeResources
) -> None:
    route = route_named("GET /api/edge/v1/commands/poll")
    before = server.dump()
    foreign_response, absent_response = (
        server.request(route, f"{route.path}?zone_id={zone_id}", callers.headers["collector"])
        for zone_id in (foreign.zone_id, ABSENT_ID)
    )
    assert foreign_response.json()["error"] == "ACCESS_DENIED"
    assert comparable(foreign_response) == comparable(absent_response)
    assert server.dump() == before


Change = Callable[[dict[str, Any], int], dict[str, Any]]


def in_field(name: str) -> Change:
    return lambda body, id_: {**body, name: id_}


def in_list(name: str) -> Change:
    return lambda body, id_: {**body, name: [*body[name], id_]}


def in_first_of(name: str) -> Change:
    return lambda body, id_: {**body, name: [{**body[name][0], "miner_id": id_}]}


# Bodies with an id of a site's resource: the route, the index of the body, the resource, and how to set the id.
IDS_IN_BODIES: list[tuple[str, int, str, Change]] = [
    ("POST /api/edge/v1/admin/commands", 0, "miner_id", in_field("miner_id")),
    ("POST /api/edge/v1/admin/commands", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/commands", 1, "miner_id", in_list("target_ids")),
    ("POST /api/edge/v1/admin/commands", 2, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/commands", 3, "miner_id", in_first_of("commands")),
    ("POST /api/edge/v1/admin/devices", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/miners", 0, "zone_id", in_field("zone_id")),
    ("POST /api/edge/v1/admin/rules", 0, "miner_id", in_list("miner_ids")),
    ("PUT /api/edge/v1/admin/rules/{rule_id}", 0, "miner_id", in_list("miner_ids")),
    ("PATCH /api/edge/v1/admin/rules/{rule_id}", 0, "miner_id", in_list("miner_ids")),
    ("POST /api/edge/v1/telemetry/batch", 0, "site_id", in_field("site_id")),
    ("POST /api/collector/upload", 0, "site_id", in_field("site_id")),
]


@pytest.mark.parametrize(("name", "place", "resource", "change"), IDS_IN_BODIES)
def test_foreign_and_missing_ids_in_bodies_are_indistinguishable(
    server: PopulatedServer,
    resources: Resources,
    callers: Callers,
    foreign: EdgeResources,
    name: str,
    place: int,
    resource: str,
    change: Change,
) -> None:
    route = route_named(name)
    body = {**EDGE_BODIES, **HANDLER_DECODED_BODIES}[route.method, route.path][place](resources.edge)
    caller = "admin key" if "/admin/" in route.path else "collector"
    path = route.path.replace("{rule_id}", str(resources.edge.rule_id))
    before = server.dump()
    foreign_response, absent_response = (
        server.request(route, path, callers.headers[caller], change(body, id_))
        for id_ in (getattr(foreign, resource), ABSENT_ID)
    )
    assert foreign_response.status_code in (400, 403), foreign_response.text
    assert foreign_response.content == absent_response.content
    assert server.dump() == before


@pytest.mark.parametrize(
    ("name", "list_name"),
    [
        ("POST /api/edge/v1/telemetry/batch", "records"),
        ("POST /api/edge/v1/events/safety/batch", "events"),
        ("POST /api/collector/upload", "records"),
    ],
)
def test_report_of_another_sites_miner_is_refused_and_of_a_missing_one_kept(
    server: PopulatedServer, resources: Resources, callers: Callers, foreign: EdgeResources, name: str, list_name: str
) -> None:
    route = route_named(name)
    body = HANDLER_DECODED_BODIES[route.method, route.path][0](resources.edge)
    before = server.dump()

    def report(miner_id: int) -> dict[str, Any]:
        sent = in_first_of(list_name)(body, miner_id)
        content: dict[str, Any] = server.request(route, route.path, callers.headers["collector"], sent).json()
        return content

    refused = report(foreign.miner_id)
    assert (refused["processed"], refused["errors"][0]["error"]) == (
        0,
        "miner_id: expected the id of a miner of the site",
    )
    assert server.dump() == before
    assert report(ABSENT_ID)["processed"] == 1
