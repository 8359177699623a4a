"""Pages of other origins: the security headers of every response, the session cookie, and the origin of requests."""

from pathlib import Path

import httpx
import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.server.config.settings import Settings
from restante.server.lifecycle import default_headers
from tests.conftest import ManualClock
from tests.identity.people_and_devices import PASSWORD, add_user
from tests.server.live_server import LiveServer
from tests.updates.auth_app import serving

PUBLIC_URL = "https://restante.example"
HSTS = ("strict-transport-security", "max-age=31536000")
NOSNIFF = ("x-content-type-options", "nosniff")


def test_every_response_forbids_guessing_its_type_and_plain_http(tmp_path: Path) -> None:
    server = LiveServer(tmp_path, public_url=PUBLIC_URL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.fast_port}") as client:
            responses = [
                client.get("/device"),
                client.get("/healthz"),
                client.get("/nothing"),
                client.post("/auth/general", content=b"{"),
                # The fast lane serves this one.
                client.get("/apiv1/devices/self/updates", headers={"authorization": "Bearer x"}),
            ]
        with server.connect() as connection:
            invalid = connection.request(b"nonsense\r\n\r\n")
    finally:
        server.close()
    for response in responses:
        assert response.headers.get_list(NOSNIFF[0]) == [NOSNIFF[1]]
        assert response.headers.get_list(HSTS[0]) == [HSTS[1]]
    assert invalid.header(NOSNIFF[0].encode()) == NOSNIFF[1].encode()


@pytest.mark.parametrize(
    ("public_url", "expected"),
    [(None, [NOSNIFF]), ("http://restante.example", [NOSNIFF]), (PUBLIC_URL, [NOSNIFF, HSTS])],
)
def test_only_a_public_https_url_binds_browsers_to_https(
    public_url: str | None, expected: list[tuple[str, str]]
) -> None:
    assert default_headers(Settings(public_url=public_url)) == expected


async def test_session_cookie_of_https_has_the_host_prefix(database: Database, clock: ManualClock) -> None:
    add_user(database, "ada@example.com", Role.operator)
    async with serving(database, clock, PUBLIC_URL) as app, app.client(PUBLIC_URL) as client:
        body = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
        cookie = (await client.post("/auth/general", json=body)).headers["set-cookie"]
        assert cookie.startswith("__Host-restante_session=")
        attributes = cookie.lower().split("; ")
        assert {"path=/", "secure", "httponly", "samesite=lax"} <= set(attributes)
        assert not any(attribute.startswith("domain") for attribute in attributes)
        assert (await client.get("/auth/status")).json()["data"]["authenticated"] is True
        # A cookie that a page of another host could have set does not count.
        token = cookie.partition("=")[2].partition(";")[0]
    async with app.client(PUBLIC_URL, cookies={"restante_session": token}) as client:
        assert (await client.get("/auth/status")).json()["data"]["authenticated"] is False


@pytest.mark.parametrize("origin", ["http://restante.example", "https://restante.example:1", "https://example", "null"])
async def test_request_of_a_page_with_another_scheme_host_or_port_is_refused(
    database: Database, clock: ManualClock, origin: str
) -> None:
    """Behind a proxy every request arrives by plain http: the scheme of the public URL counts."""
    async with serving(database, clock, PUBLIC_URL) as app:
        person = await app.signed_in()
        proxied = {"host": "restante.example"}
        async with person.client as client:
            body = {"action": "device_verify", "user_code": "BCDF-GHJK", "approve": True}
            refused = await client.post("/auth/device", json=body, headers={**proxied, "origin": origin})
            assert refused.status_code == 403
            own = await client.post("/auth/device", json=body, headers={**proxied, "origin": PUBLIC_URL})
            assert own.status_code == 404
