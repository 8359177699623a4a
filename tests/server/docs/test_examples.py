"""Every example in the OpenAPI document, sent to a server: accepted, once the ids in it name resources that exist."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from restante.identity.devices import registration_codes
from restante.server.docs.schemas import declared_responses
from restante.web.routes import Route
from tests.server.edge_resources import is_edge
from tests.server.event_resources import is_event, is_ssf
from tests.server.populated_server import PopulatedServer, fill_path
from tests.server.route_caller import RouteCaller
from tests.server.route_table import case_name, every_route, route_name

FORM = "application/x-www-form-urlencoded"
# Bodies that hold a secret or a certificate of the moment, so that no fixed example is accepted.
WITHOUT_EXAMPLE = {
    "POST /auth/refresh",
    "PUT /apiv1/people/{person_id}/password",
    "POST /device",
    "POST /device/sign-in",
    "POST /device/sign-out",
    "POST /developer/session",
    "POST /developer/sign-out",
    "POST /developer/test-event",
    "POST /apiv1/users/{user_id}/certificates/import",
    "POST /apiv1/users/{user_id}/cas/import",
}

CASES = [(route, place) for route in every_route() for place in range(len(route.examples))]


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouteCaller]:
    server = PopulatedServer(tmp_path_factory.mktemp("examples"))
    yield RouteCaller(server)
    server.close()


def ids_of(caller: RouteCaller, route: Route) -> dict[str, Any]:
    """The resources that stand for the ids of an example, by the name of the field."""
    resources = caller.resources
    if is_edge(route):
        edge = resources.edge
        return {"site_id": edge.site_id, "miner_id": edge.miner_id}
    if is_event(route) or is_ssf(route):
        return {"client_id": resources.events.client_id, "stream_id": resources.events.stream_id}
    return {
        "user_id": resources.user_id,
        "acct_id": resources.acct_id,
        "cert_id": resources.free_certificate_id,
        "ca_id": resources.free_ca_id,
        "registration_code": caller.server.node.database.write_now(registration_codes.create, resources.user_id),
    }


def with_ids(example: Any, ids: dict[str, Any]) -> Any:
    if isinstance(example, dict):
        return {name: ids[name] if name in ids else with_ids(value, ids) for name, value in example.items()}
    return [with_ids(each, ids) for each in example] if isinstance(example, list) else example


def send(caller: RouteCaller, route: Route, example: Any) -> httpx.Response:
    client, path, headers = caller.server.client, fill_path(route, caller.resources), caller.headers(route)
    if route.request_body is None or FORM not in route.request_body.media_types:
        return client.request(route.method, path, headers=headers, json=example)
    registration = {"name": "an app", "token_endpoint_auth_method": "client_secret_basic", "scope": example["scope"]}
    registered = client.post("/admin/clients", json=registration, headers=caller.admin_headers).json()
    credentials = (registered["client_id"], registered["client_secret"])
    return client.post(path, content=urlencode(example), headers={"content-type": FORM}, auth=credentials)


@pytest.mark.parametrize(("route", "place"), CASES, ids=case_name)
def test_example_is_accepted(caller: RouteCaller, route: Route, place: int) -> None:
    caller.add_new_resources(route)
    response = send(caller, route, with_ids(route.examples[place], ids_of(caller, route)))
    assert response.status_code in {each.status for each in declared_responses(route)}, response.text


def test_every_route_with_body_has_an_example() -> None:
    with_body = [route for route in every_route() if route.body_type is not None or route.request_body is not None]
    assert {route_name(route) for route in with_body if not route.examples} == WITHOUT_EXAMPLE
