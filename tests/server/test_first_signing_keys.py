"""The keys that sign events are published before the first event exists, for every reader and at every node.

The receivers are libraries that clients use: PyJWT and joserfc, with the keys as they were before the event.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from joserfc import jws
from joserfc.jwk import KeySet

from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.cluster.roles import RoleNames
from tests.events.publish_fixture import SUB, UPDATED, OpenBankingVerifier, header_of
from tests.events.receiver_process import wait_until
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer
from tests.server.two_nodes import ONLY_API, Nodes

pytestmark = pytest.mark.slow

CAEP = "https://schemas.openid.net/secevent/caep/event-type/session-revoked"
SETTINGS: dict[str, Any] = {"event_signing_processes": 1, "events_wait_seconds": 0.0}


class Operator:
    """An operator and the clients that they register, all over HTTP."""

    def __init__(self, server: LiveServer) -> None:
        self._base = f"http://127.0.0.1:{server.fast_port}"
        key = server.node.database.write_now(api_keys.create, "admin", Role.admin)[1]
        self._headers = {"Authorization": f"Bearer {key}"}

    def jwks(self, path: str = "/jwks.json") -> dict[str, Any]:
        document: dict[str, Any] = self._request("GET", path, {}).json()
        return document

    def register(self, scope: str, **members: str) -> dict[str, str]:
        """Register a client; return its id and an Authorization header with an access token."""
        body = {"name": "a receiver", "token_endpoint_auth_method": "client_secret_basic", "scope": scope, **members}
        made = self._request("POST", "/admin/clients", self._headers, body).json()
        token = httpx.post(
            f"{self._base}/token",
            auth=(made["client_id"], made["client_secret"]),
            data={"grant_type": "client_credentials"},
            timeout=TIMEOUT_SECONDS,
        ).json()["access_token"]
        return {"client_id": made["client_id"], "authorization": f"Bearer {token}"}

    def publish(self, client: dict[str, str], **event: Any) -> None:
        self._request("POST", "/admin/events", self._headers, {"client_id": client["client_id"], **event})

    def create_stream(self, client: dict[str, str]) -> str:
        stream = self._request("POST", "/ssf/streams", {"authorization": client["authorization"]}, {}).json()
        return f"/ssf/streams/{stream['stream_id']}/poll"

    def poll(self, client: dict[str, str], path: str = "/events") -> str:
        """Poll until there is a token; return it."""
        found: list[str] = []

        def poll_once() -> bool:
            headers = {"authorization": client["authorization"]}
            response = self._request("POST", path, headers, {"returnImmediately": True})
            found.extend(response.json()["sets"].values())
            return bool(found)

        wait_until(poll_once, "the token")
        return found[0]

    def _request(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> httpx.Response:
        response = httpx.request(method, self._base + path, headers=headers, json=body, timeout=TIMEOUT_SECONDS)
        assert response.is_success, response.text
        return response


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], LiveServer]]:
    """Start a server on the same data; a second call stops the first one before."""
    with ExitStack() as running:

        def start_server() -> LiveServer:
            running.close()
            server = LiveServer(tmp_path, **SETTINGS)
            running.callback(server.close)
            return server

        yield start_server


def is_verified(token: str, document: dict[str, Any]) -> bool:
    """Verify the token with both libraries and the keys of this document."""
    header = header_of(token)
    keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(document).keys}
    if header["kid"] not in keys:
        return False
    alg = header["alg"]
    OpenBankingVerifier().decode_complete(token, keys[header["kid"]].key, algorithms=[alg])
    if "crit" not in header:
        jws.deserialize_compact(token, KeySet.import_key_set(document), algorithms=[alg])  # type: ignore[arg-type]
    return True


def test_keys_exist_from_the_first_start_and_stay(start: Callable[[], LiveServer]) -> None:
    before = Operator(start()).jwks()
    assert [key["alg"] for key in before["keys"]] == ["PS256", "RS256"]
    assert Operator(start()).jwks() == before


def test_receiver_with_keys_from_before_the_first_event_verifies_it(start: Callable[[], LiveServer]) -> None:
    operator = Operator(start())
    before = operator.jwks()
    client = operator.register("eventpolling")
    operator.publish(client, sub=SUB, events=UPDATED)
    assert is_verified(operator.poll(client), before)


def test_shared_signals_receiver_with_keys_from_before_the_first_event_verifies_it(
    start: Callable[[], LiveServer],
) -> None:
    operator = Operator(start())
    before = operator.jwks("/jwks.json?alg=RS256")
    client = operator.register("ssf.manage")
    path = operator.create_stream(client)
    operator.publish(client, sub_id={"format": "opaque", "id": "a"}, events={CAEP: {"event_timestamp": 1}})
    token = operator.poll(client, path)
    assert is_verified(token, before)
    assert is_verified(token, operator.jwks(f"/clients/{client['client_id']}/jwks.json"))


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_key_of_another_algorithm_is_published_with_the_registration(start: Callable[[], LiveServer], alg: str) -> None:
    operator = Operator(start())
    assert operator.jwks(f"/jwks.json?alg={alg}") == {"keys": []}
    client = operator.register("eventpolling", set_signing_alg=alg)
    before = operator.jwks(f"/jwks.json?alg={alg}")
    assert len(before["keys"]) == 1
    operator.publish(client, sub=SUB, events=UPDATED)
    assert is_verified(operator.poll(client), before)


def test_nodes_without_the_signing_role_publish_the_key_that_another_node_signs_with(
    tmp_path: Path, postgres_url: str
) -> None:
    nodes = Nodes(tmp_path, postgres_url)
    try:
        serving = Operator(nodes.start(ONLY_API, **SETTINGS))
        before = serving.jwks()
        assert [key["alg"] for key in before["keys"]] == ["PS256", "RS256"]
        other = Operator(nodes.start(RoleNames(["api", "signing"]), **SETTINGS))
        assert other.jwks() == serving.jwks() == before
        client = serving.register("eventpolling", set_signing_alg="ES256")
        es256 = other.jwks("/jwks.json?alg=ES256")
        serving.publish(client, sub=SUB, events=UPDATED)
        assert is_verified(serving.poll(client), es256)
    finally:
        nodes.close()
