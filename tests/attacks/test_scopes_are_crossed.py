"""Attack: use a grant for one site, client or user on another one.

Every role in every scope on every route is in `tests/server/test_scope_access.py`. Here are ways around a check.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.identity import api_keys
from restante.identity.grants import Grants, checked_grants, parse_grant
from tests.server.live_server import LiveServer

EDGE = "/api/edge/v1/admin"


def grants(*texts: str) -> Grants:
    return checked_grants(parse_grant(text) for text in texts)


class Server:
    def __init__(self, folder: Path) -> None:
        self.live = LiveServer(folder, has_services=False)
        self._clients: list[httpx.Client] = []
        self.admin = self.key("admin@all")
        self.sites = [self.add_site(name) for name in ("north", "south")]
        self.miners = [self.add_miner(site_id) for site_id in self.sites]
        registration = {"token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_subject_dn": "CN=a"}
        for client_id in ("bank", "shop"):
            self.post(self.admin, "/admin/clients", {"name": client_id, "client_id": client_id, **registration})

    def key(self, *texts: str, name: str = "key") -> httpx.Client:
        _, key = self.live.node.database.write_now(api_keys.create, name, grants(*texts))
        url = f"http://127.0.0.1:{self.live.fast_port}"
        client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.live.close()

    def post(self, client: httpx.Client, path: str, body: Any) -> Any:
        response = client.post(path, json=body)
        assert response.status_code == 201, response.text
        return response.json()

    def add_site(self, name: str) -> int:
        return int(self.post(self.admin, f"{EDGE}/sites", {"name": name})["id"])

    def add_miner(self, site_id: int) -> int:
        return int(self.post(self.admin, f"{EDGE}/miners", {"site_id": site_id, "name": "miner"})["id"])

    def command(self, place: int, **more: Any) -> dict[str, Any]:
        return {"site_id": self.sites[place], "miner_id": self.miners[place], "command_type": "MINER_RESTART", **more}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("scopes"))
    yield server
    server.close()


def test_operator_of_devices_neither_stops_miners_nor_publishes(server: Server) -> None:
    """The finding: who may let in one device may stop every miner and publish to a bank's client."""
    operator = server.key("operator@updates:1")
    published = {"client_id": "bank", "sub": "https://a.example/1", "events": {"urn:example:a": {}}}
    assert operator.post(f"{EDGE}/commands", json=server.command(0)).status_code == 403
    assert operator.post("/admin/events", json=published).status_code == 403
    assert operator.get("/apiv1/users/1/devices").status_code == 404  # no such user
    assert operator.get("/apiv1/users/2/devices").status_code == 403


def test_site_hidden_among_own_commands_is_refused_and_nothing_is_created(server: Server) -> None:
    operator = server.key(f"operator@commands:{server.sites[0]}")
    response = operator.post(f"{EDGE}/commands", json={"commands": [server.command(0), server.command(1)]})
    assert response.status_code == 400
    missing = {"commands": [server.command(0), {**server.command(1), "site_id": 999}]}
    assert response.content == operator.post(f"{EDGE}/commands", json=missing).content
    assert operator.get(f"{EDGE}/commands").json()["items"] == []


def test_filter_does_not_widen_a_list(server: Server) -> None:
    server.post(server.admin, f"{EDGE}/commands", server.command(1))
    viewer = server.key(f"viewer@commands:{server.sites[0]}")
    for path in ("commands", "miners", "zones", "rules", "devices", "safety-events", "audit", "telemetry"):
        for site_id in (server.sites[1], 999):
            found = viewer.get(f"{EDGE}/{path}", params={"site_id": site_id})
            assert found.json() == {"items": [], "next": None}, path
    both = server.key(*(f"viewer@commands:{site_id}" for site_id in server.sites))
    assert {site["id"] for site in both.get(f"{EDGE}/sites").json()["items"]} == set(server.sites)
    assert viewer.get(f"{EDGE}/commands", params={"miner_id": server.miners[1]}).json()["items"] == []


def test_repeated_request_of_another_caller_is_not_answered_from_memory(server: Server) -> None:
    """A key with the name of another one, and the grants of another site, repeats its request under its key."""
    headers, body = {"idempotency-key": "k-1"}, server.command(1, command_type="HASHING_ENABLE")
    wide = server.key("operator@commands", name="nightly")
    assert wide.post(f"{EDGE}/commands", json=body, headers=headers).status_code == 201
    assert wide.post(f"{EDGE}/commands", json=body, headers=headers).headers["idempotency-replayed"] == "true"
    narrow = server.key(f"operator@commands:{server.sites[0]}", name="nightly")
    refused = narrow.post(f"{EDGE}/commands", json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_REQUEST")
    assert "idempotency-replayed" not in refused.headers
    event = {"client_id": "bank", "sub": "https://a.example/1", "events": {"urn:example:a": {}}}
    bank, shop = (server.key(f"operator@events:{name}", name="publisher") for name in ("bank", "shop"))
    assert bank.post("/admin/events", json=event, headers=headers).status_code == 201
    assert shop.post("/admin/events", json=event, headers=headers).status_code == 404


def test_event_to_all_subscribers_needs_all_clients(server: Server) -> None:
    event = {"all_subscribers": True, "sub": "https://a.example/1", "events": {"urn:example:a": {}}}
    assert (
        server.key("operator@events:bank", "operator@events:shop").post("/admin/events", json=event).status_code == 403
    )
    assert server.key("operator@events").post("/admin/events", json=event).status_code == 201


def test_transaction_of_another_client_is_not_listed(server: Server) -> None:
    event = {"client_id": "bank", "sub": "https://a.example/1", "events": {"urn:example:a": {}}, "txn": "t-7"}
    server.post(server.admin, "/admin/events", event)
    assert server.key("viewer@events:shop").get("/admin/events", params={"txn": "t-7"}).json()["items"] == []
    assert len(server.key("viewer@events:bank").get("/admin/events", params={"txn": "t-7"}).json()["items"]) == 1
    missing = server.key("viewer@events:nobody")
    assert missing.get("/admin/events").json()["items"] == missing.get("/admin/clients").json()["items"] == []


def test_audit_of_other_clients_and_of_keys_is_not_shown(server: Server) -> None:
    server.admin.post("/admin/events/keys/rotate", json={"alg": "ES256"}).raise_for_status()
    shown = server.key("viewer@events:shop").get("/admin/events/audit").json()["items"]
    assert {action["client_id"] for action in shown} == {"shop"}
    assert None in {action["client_id"] for action in server.admin.get("/admin/events/audit").json()["items"]}
