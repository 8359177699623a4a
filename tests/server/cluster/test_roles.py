from pathlib import Path

import httpx
import pytest

from restante.server.cluster.roles import EVERY_ROLE, ROLES, RoleNames, Roles
from restante.server.config.settings_sources import SettingsError, load
from tests.server.live_server import LiveServer


def test_roles_are_parsed_from_text_with_commas_and_from_a_list() -> None:
    assert Roles().parse("recovery, api") == RoleNames(["api", "recovery"])
    assert Roles().parse(["dispatcher"]) == ("dispatcher",)
    assert Roles().parse(EVERY_ROLE) == EVERY_ROLE == tuple(ROLES)
    assert str(EVERY_ROLE) == ", ".join(ROLES)


@pytest.mark.parametrize("raw", ["", " , ", "api,cook", ["cook"]])
def test_empty_or_unknown_roles_are_refused_with_a_list_of_all_roles(raw: object) -> None:
    with pytest.raises(SettingsError, match=r"expected one or more of api, dispatcher, .*, with commas between them"):
        load({"roles": raw}, {})
    assert all(role in Roles().expected for role in ROLES)


def test_every_service_has_a_known_role_and_every_role_has_a_service(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        assert {service.role for service in server.node.services()} == {*ROLES, ""}
    finally:
        server.close()


def test_process_runs_only_the_services_of_its_roles(tmp_path: Path) -> None:
    server = LiveServer(tmp_path, roles=RoleNames(["recovery"]))
    try:
        names = {service.name for service in server.node.services()}
        assert names == {"lease recovery", "audit heads", "master key", "catching up", "deadlines", "clock"} | {
            "console rates"
        }
    finally:
        server.close()


def test_process_without_api_role_answers_only_health_and_metrics(tmp_path: Path) -> None:
    server = LiveServer(tmp_path, roles=RoleNames(["dispatcher"]))
    try:
        for port in (server.fast_port, server.plain_port):
            base_url = f"http://127.0.0.1:{port}"
            assert httpx.get(f"{base_url}/healthz").json() == {"data": {"status": "ok", "roles": ["dispatcher"]}}
            assert httpx.get(f"{base_url}/metrics").status_code == 200
            assert httpx.get(f"{base_url}/apiv1/devices/self/updates").status_code == 404
            assert httpx.get(f"{base_url}/api/edge/v1/commands/poll").status_code == 404
    finally:
        server.close()
