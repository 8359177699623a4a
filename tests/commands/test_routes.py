"""Every operator's route, knocked at by every role: who is let in is one table here."""

import pytest

from restante.commands.routes import admin_routes
from restante.database.database import Database
from restante.identity.callers import Role
from restante.web.access import ROLE_NEEDED
from tests.commands.operators import ADMIN, OVERLAP_SECONDS, Office, World, error_of, open_office
from tests.conftest import ManualClock

NEEDED = {
    **dict.fromkeys(("GET /sites", "GET /sites/1", "GET /zones", "GET /miners", "GET /devices"), Role.viewer),
    **dict.fromkeys(("GET /devices/1", "GET /commands", "GET /commands/x", "GET /commands/x/why"), Role.viewer),
    **dict.fromkeys(("GET /audit", "GET /audit/export", "GET /audit/verify"), Role.viewer),
    **dict.fromkeys(("POST /commands", "POST /commands/x/cancel"), Role.operator),
    **dict.fromkeys(("POST /commands/x/approve", "POST /commands/x/deny"), Role.approver),
    **dict.fromkeys(("POST /sites", "POST /zones", "POST /miners", "POST /devices"), Role.admin),
    **dict.fromkeys(("POST /devices/1/rotate", "POST /devices/1/revoke", "DELETE /devices/1"), Role.admin),
}


@pytest.fixture
async def office(database: Database, clock: ManualClock) -> Office:
    return await open_office(World(database, clock))


@pytest.mark.parametrize("target", NEEDED)
async def test_who_may_knock(office: Office, target: str) -> None:
    method, _, path = target.partition(" ")
    for role in Role:
        answer = await office.call(method, path, {}, role=role)
        assert (answer.status_code == 403) == (role < NEEDED[target]), f"{role.name} {target}: {answer.text}"
    stranger = await office.call(method, path, {}, key="rk_nobody")
    assert error_of(stranger) == (401, "UNAUTHORIZED")


def test_the_table_is_of_all_routes(database: Database, clock: ManualClock) -> None:
    world = World(database, clock)
    routes = admin_routes(database, world.trail, world.box, world.options, secret_overlap_seconds=OVERLAP_SECONDS)
    there = {}
    for route in routes:
        path = route.path.removeprefix(ADMIN).replace("{command_id}", "x")
        for name in ("{site_id}", "{device_id}"):
            path = path.replace(name, "1")
        there[f"{route.method} {path}"] = ROLE_NEEDED[route.access]
    assert there == NEEDED
