"""The Unix socket makes its caller an administrator, who must be the owner of the data folder and cannot approve."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from restante_client.testing import LocalServer

from restante.server.data_folder import path_problem
from restante.server.http.local_socket import LocalSocket, open_local_socket, peer_user

pytestmark = pytest.mark.slow

ADMIN = "/api/edge/v1/admin"


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture
def local(server: LocalServer) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(server.data / "restante.sock"))
    with httpx.Client(base_url="http://localhost", transport=transport, timeout=30) as client:
        yield client


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    response = client.post(path, json=body)
    assert response.status_code in (200, 201), response.text
    return response.json()


def test_socket_is_private_to_its_owner(server: LocalServer) -> None:
    mode = (server.data / "restante.sock").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_changes_are_recorded_under_the_local_user(local: httpx.Client) -> None:
    key = post(local, "/apiv1/keys", name="made locally", grants=[{"role": "viewer", "scope": "all"}])["data"]
    changes = local.get("/apiv1/access-audit", params={"key_id": key["id"]}).json()["data"]["items"]
    assert [(each["event"], each["actor"].split(":")[0]) for each in changes] == [("key.created", "local")]


def test_local_administrator_cannot_approve(local: httpx.Client) -> None:
    site = post(local, f"{ADMIN}/sites", name="guarded")
    miner = post(local, f"{ADMIN}/miners", site_id=site["id"], name="m")
    policy = {"command_types": ["DEVICE_REBOOT"], "miners_from": None, "window_seconds": 600}
    assert local.put(f"{ADMIN}/approval-policy", json=policy).status_code == 200
    command = post(
        local, f"{ADMIN}/commands", site_id=site["id"], miner_id=miner["id"], command_type="DEVICE_REBOOT", params={}
    )
    assert command["status"] == "pending_approval"
    refused = local.post(f"{ADMIN}/commands/{command['command_id']}/approve")
    assert refused.status_code == 403
    assert "signed-in person" in refused.text


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_request_that_a_proxy_passed_on_is_not_local(local: httpx.Client, header: str) -> None:
    assert local.get("/apiv1/people", headers={header: "198.51.100.7"}).status_code == 401


def test_wrong_key_is_not_replaced_by_the_local_user(local: httpx.Client) -> None:
    assert local.get("/apiv1/people", headers={"Authorization": "Bearer rk_wrong"}).status_code == 401


def test_tcp_request_cannot_name_a_local_user(server: LocalServer) -> None:
    for name in ("restante.local_user", "X-Restante-Local-User"):
        assert httpx.get(f"{server.url}/apiv1/people", headers={name: "root"}).status_code == 401


def test_api_key_adds_no_people_and_sets_no_passwords(server: LocalServer) -> None:
    """A person that a key made could approve what the key sends."""
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    grants = [{"role": "approver", "scope": "all"}]
    body = {"email": "made@example.com", "password": "correct horse", "grants": grants}
    assert httpx.post(f"{server.url}/apiv1/people", json=body, headers=headers).status_code == 403
    path = f"{server.url}/apiv1/people/{server.user_id}/password"
    assert httpx.put(path, json={"password": "correct horse"}, headers=headers).status_code == 403


def test_other_user_is_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel keeps other users out by the mode of the socket; a descriptor that was passed on does not help."""
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert peer_user(here.fileno()) is not None
        monkeypatch.setattr("os.geteuid", lambda: 4242)
        expected = None if os.getuid() else "root"
        assert peer_user(here.fileno()) == expected


def test_stale_socket_is_replaced_and_a_served_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "restante.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    first = open_local_socket(path)
    assert first is not None
    assert open_local_socket(path) is None
    first.close()
    assert not path.exists()


def test_closing_leaves_the_socket_of_a_successor(tmp_path: Path) -> None:
    path = tmp_path / "restante.sock"
    first, second = LocalSocket(path), LocalSocket(path)
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()


def test_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 100) / "restante.sock"
    problem = path_problem(path)
    assert problem is not None
    assert str(path) in problem
    assert open_local_socket(path) is None
