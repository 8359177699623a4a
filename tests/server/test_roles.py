from pathlib import Path

import httpx
import pytest

from restante.server.roles import EVERY_ROLE, ROLES, SERVICES, RoleNames, Roles, role_of
from restante.server.settings_sources import SettingsError, load
from tests.server.serving import Served


def test_roles_are_written_with_commas_or_as_a_list() -> None:
    assert Roles().read("recovery, api") == RoleNames(["api", "recovery"])
    assert Roles().read(["dispatcher"]) == ("dispatcher",)
    assert Roles().read(EVERY_ROLE) == EVERY_ROLE == tuple(ROLES)
    assert str(EVERY_ROLE) == ", ".join(ROLES)


@pytest.mark.parametrize("raw", ["", " , ", "api,cook", ["cook"]])
def test_no_role_or_an_unknown_one_is_refused_naming_those_there_are(raw: object) -> None:
    with pytest.raises(SettingsError, match=r"expected one or more of api, dispatcher, .*, with commas between them"):
        load({"roles": raw}, {})
    assert all(role in Roles().expected for role in ROLES)


def test_every_service_has_a_role_and_every_role_a_service(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        assert [service.name for service in served.node.services() if role_of(service.name) is None] == []
    finally:
        served.close()
    assert set(SERVICES.values()) == {*ROLES, ""}
    assert role_of("dispatcher of shop") == "dispatcher"


def test_a_service_that_nobody_has_named_runs_everywhere() -> None:
    assert RoleNames(["api"]).run("brand new")


def test_a_process_runs_the_services_of_its_roles_and_no_other(tmp_path: Path) -> None:
    served = Served(tmp_path, roles=RoleNames(["recovery"]))
    try:
        names = {service.name for service in served.node.services()}
        assert names == {"lease recovery", "catching up", "deadlines", "clock"}
    finally:
        served.close()


def test_a_process_without_the_api_answers_health_and_metrics_only(tmp_path: Path) -> None:
    served = Served(tmp_path, roles=RoleNames(["dispatcher"]))
    try:
        for port in (served.fast_port, served.plain_port):
            address = f"http://127.0.0.1:{port}"
            assert httpx.get(f"{address}/healthz").json() == {"data": {"status": "ok", "roles": ["dispatcher"]}}
            assert httpx.get(f"{address}/metrics").status_code == 200
            assert httpx.get(f"{address}/apiv1/devices/self/updates").status_code == 404
            assert httpx.get(f"{address}/api/edge/v1/commands/poll").status_code == 404
    finally:
        served.close()
