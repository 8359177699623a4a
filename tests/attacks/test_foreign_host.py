"""A token request sent with another server's `Host`: the server's own URL never comes from the request."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.identity.jwt import jwks
from restante.server.config.setting_types import Address, NetworkList
from restante.server.config.settings import Settings
from restante.server.config.settings_sources import SettingsError, check_public_url, load
from tests.cli.conftest import Restante
from tests.events.client_keys import ASSERTION_TYPE, assertion, jwk
from tests.events.token_app import BASE, GRANT, TOKEN_URL, TokenApp, add_by_key
from tests.server.live_server import LiveServer

ELSEWHERE = "https://elsewhere.example"
METADATA_PATH = "/.well-known/oauth-authorization-server"


def form(text: str) -> dict[str, str]:
    return {**GRANT, "client_assertion_type": ASSERTION_TYPE, "client_assertion": text}


@pytest.mark.parametrize("audience", [ELSEWHERE, f"{ELSEWHERE}/token"])
async def test_assertion_for_another_server_is_refused_whatever_the_host(database: Database, audience: str) -> None:
    add_by_key(database)
    refused = await TokenApp(database).request(form(assertion("tpp", audience)), base=ELSEWHERE)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert TOKEN_URL in refused.json()["error_description"]


async def test_assertion_for_this_server_is_accepted_whatever_the_host(database: Database) -> None:
    add_by_key(database)
    accepted = await TokenApp(database).request(form(assertion("tpp", BASE)), base=ELSEWHERE)
    assert accepted.status_code == 200


async def test_token_endpoint_is_no_audience_if_the_setting_says_so(database: Database) -> None:
    add_by_key(database)
    app = TokenApp(database, is_token_endpoint_audience=False)
    assert (await app.request(form(assertion("tpp", TOKEN_URL)))).status_code == 401
    assert (await app.request(form(assertion("tpp", BASE)))).status_code == 200


async def test_rs256_is_refused_if_the_setting_does_not_name_it(database: Database) -> None:
    add_by_key(database, "rsa-1")
    app = TokenApp(database, assertion_algorithms=("PS256", "ES256"))
    refused = await app.request(form(assertion("tpp", BASE, "rsa-1", "RS256")))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert refused.json()["error_description"] == "the assertion's alg must be one of PS256, ES256"
    assert (await app.request(form(assertion("tpp", BASE, "rsa-1", "PS256")))).status_code == 200
    metadata = (await app.request(b"", method="GET", path=METADATA_PATH)).json()
    assert metadata["token_endpoint_auth_signing_alg_values_supported"] == ["PS256", "ES256"]


@pytest.mark.parametrize("raw", ["", "HS256", "none", "PS256,HS256"])
def test_other_algorithms_cannot_be_set(raw: str) -> None:
    with pytest.raises(SettingsError, match="client_assertion_algorithms: expected auto, or algorithms"):
        load({"client_assertion_algorithms": raw}, {})


def test_small_rsa_key_of_an_issuer_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [jwk("small-1"), jwk("rsa-1"), {**jwk("rsa-1"), "kid": "broken", "n": 5}]}))
    assert jwks.load(str(path)).keys() == {"rsa-1"}


def test_metadata_links_and_page_name_the_listen_address(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        own = f"http://127.0.0.1:{server.fast_port}"
        with httpx.Client(base_url=own, headers={"host": "elsewhere.example"}) as client:
            metadata = client.get(METADATA_PATH)
            assert metadata.json()["issuer"] == own
            started = client.post("/auth/device", json={"action": "device_start"}).json()["data"]
            assert started["verification_uri"] == f"{own}/device"
            pages = [metadata, client.get("/developer"), client.get("/.well-known/ssf-configuration")]
        assert all("elsewhere.example" not in page.text for page in pages)
    finally:
        server.close()


PROXY = NetworkList().parse("127.0.0.1")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"listen": Address("0.0.0.0", 8080)}, "listens on 0.0.0.0:8080"),
        ({"listen": Address("::", 8080)}, r"listens on \[::\]:8080"),
        ({"listen": Address("192.0.2.1", 8080)}, "listens on 192.0.2.1:8080"),
        ({"listen": Address("server.example", 8080)}, "listens on server.example:8080"),
        ({"trusted_proxies": PROXY}, "behind trusted_proxies"),
    ],
)
def test_server_that_others_reach_needs_its_public_url(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=f"public_url: required, because the server .*{reason}"):
        check_public_url(Settings(**changed))
    check_public_url(Settings(public_url="https://restante.example", **changed))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_server_on_loopback_needs_no_public_url(host: str) -> None:
    check_public_url(Settings(listen=Address(host, 8080)))


def test_process_without_the_api_needs_no_public_url() -> None:
    settings = load({"roles": "dispatcher", "listen": "0.0.0.0:8080"}, {})
    check_public_url(settings)


def test_start_without_public_url_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    message = Restante(folder).error_line("serve", "--listen", "0.0.0.0:8080")
    assert message.startswith("public_url: required")
    assert "for example https://restante.example.com" in message
    assert not folder.exists()
