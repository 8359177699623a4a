"""Calls every operator route with every role. One table says which role each route needs."""

import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.web.access import ROLE_NEEDED
from tests.commands.operator_fixture import ADMIN, MinerFleet, OperatorApi, error_of, operator_routes
from tests.conftest import ManualClock

NEEDED = {
    **dict.fromkeys(("GET /sites", "GET /sites/1", "GET /zones", "GET /miners", "GET /devices"), Role.viewer),
    **dict.fromkeys(("GET /devices/1", "GET /commands", "GET /commands/x", "GET /commands/x/why"), Role.viewer),
    **dict.fromkeys(("GET /audit", "GET /audit/export", "GET /audit/verify"), Role.viewer),
    **dict.fromkeys(("POST /commands", "POST /commands/x/cancel"), Role.operator),
    **dict.fromkeys(("POST /commands/x/approve", "POST /commands/x/deny"), Role.approver),
    **dict.fromkeys(("POST /audit/verify", "POST /audit/anchor"), Role.operator),
    **dict.fromkeys((f"{method} /devices/1/tags/pilot" for method in ("PUT", "DELETE")), Role.operator),
    **dict.fromkeys((f"{method} /miners/1/tags/pilot" for method in ("PUT", "DELETE")), Role.operator),
    **dict.fromkeys(
        (f"GET /{name}/{view}" for name in ("commands", "devices", "miners") for view in ("counts", "export")),
        Role.viewer,
    ),
    "GET /miners/1": Role.viewer,
    **dict.fromkeys(("PATCH /sites/1", "PATCH /zones/1", "PATCH /miners/1"), Role.admin),
    **dict.fromkeys((f"POST /{name}/1/retire" for name in ("sites", "zones", "miners")), Role.admin),
    "POST /miners/1/replace": Role.admin,
    "POST /devices/1/verify": Role.admin,
    "GET /approval-policy": Role.viewer,
    "PUT /approval-policy": Role.admin,
    **dict.fromkeys(("POST /sites", "POST /zones", "POST /miners", "POST /devices"), Role.admin),
    **dict.fromkeys(("POST /devices/1/rotate", "POST /devices/1/revoke", "DELETE /devices/1"), Role.admin),
}


@pytest.mark.parametrize("target", NEEDED)
async def test_route_admits_exactly_the_roles_of_the_table(api: OperatorApi, target: str) -> None:
    method, _, path = target.partition(" ")
    for role in Role:
        if target == "POST /commands/x/approve":
            response = await api.as_user(role, method, path)
        else:
            response = await api.call(method, path, {}, role=role)
        assert (response.status_code == 403) == (role < NEEDED[target]), f"{role.name} {target}: {response.text}"
    unauthenticated = await api.call(method, path, {}, key="rk_nobody")
    assert error_of(unauthenticated) == (401, "UNAUTHORIZED")


def test_table_covers_all_routes(database: Database, clock: ManualClock) -> None:
    declared = {}
    for route in operator_routes(MinerFleet(database, clock)):
        path = route.path.removeprefix(ADMIN).replace("{command_id}", "x").replace("{tag}", "pilot")
        for name in ("{site_id}", "{zone_id}", "{device_id}", "{miner_id}"):
            path = path.replace(name, "1")
        declared[f"{route.method} {path}"] = ROLE_NEEDED[route.access]
    assert declared == NEEDED
