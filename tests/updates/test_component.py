"""All routes of device updates: every route of the contract exists, once, in the contract's format."""

import pytest

from restante.updates.devices.pages import PAGE
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.routes import Access, Route
from tests.server.route_table import every_route, route_name

SELF = "/apiv1/devices/self"
USER = "/apiv1/users/{user_id}"
DEVICE = USER + "/devices/{device_id}"

CONTRACT = {
    Access.device: {
        f"GET {SELF}/updates",
        f"GET {SELF}/install-config",
        f"GET {SELF}/certificates/{{certificate_id}}",
        f"GET {SELF}/certificates/{{certificate_id}}/deploy-materials",
        f"GET {SELF}/certificates/{{certificate_id}}/bundle",
        f"GET {SELF}/cas/{{ca_id}}/bundle",
        f"POST {SELF}/notify",
    },
    Access.open: {
        "POST /auth/device",
        "POST /auth/refresh",
        "POST /auth/general",
        "POST /apiv1/device/registration",
        "GET /device",
    },
    Access.operate: {
        f"POST {USER}/devices",
        f"DELETE {DEVICE}",
        f"PUT {DEVICE}/install-config",
        f"POST {DEVICE}/install-config/restore",
        f"POST {DEVICE}/certificates",
        f"POST {DEVICE}/cas",
        f"POST {DEVICE}/signals",
        f"POST {USER}/cas",
        f"POST {USER}/cas/import",
        f"POST {USER}/acme-accounts",
        f"POST {USER}/certificates",
        f"POST {USER}/certificates/import",
        f"POST {USER}/certificates/{{certificate_id}}/issues",
        f"DELETE {USER}/certificates/{{certificate_id}}",
    },
    Access.read: {
        f"GET {USER}/devices",
        f"GET {DEVICE}",
        f"GET {DEVICE}/install-config",
        f"GET {DEVICE}/install-config/history",
        f"GET {USER}/cas",
        f"GET {USER}/certificates",
        f"GET {USER}/acme-accounts",
    },
    Access.fleet_read: {"GET /apiv1/outbox", "GET /apiv1/poll-boost"},
    Access.fleet_operate: {"POST /apiv1/outbox/{row_id}/retry", "PUT /apiv1/poll-boost", "DELETE /apiv1/poll-boost"},
}


@pytest.mark.parametrize("access", CONTRACT, ids=lambda access: access.name)
def test_routes_of_the_contract_exist(access: Access) -> None:
    names = {route_name(route) for route in every_route() if route.access is access}
    assert names >= CONTRACT[access]


def is_updates_route(route: Route) -> bool:
    return route.path.startswith(("/apiv1/", "/auth/"))


def test_each_route_exists_once_in_the_protocols_format() -> None:
    routes = [route for route in every_route() if is_updates_route(route)]
    names = [route_name(route) for route in routes]
    assert len(names) == len(set(names))
    assert {route_name(route) for route in routes if route.response_format is not RESPONSE_FORMAT} == set()


def test_pages_have_the_page_format() -> None:
    pages = [route for route in every_route() if route.path == "/device" or route.path.startswith("/device/")]
    assert {type(route.response_format) for route in pages} == {type(PAGE)}
