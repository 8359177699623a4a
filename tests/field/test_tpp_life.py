"""A TPP's life with authlib, against a real server process with mutual TLS, on both engines.

Registration by the operator, token, subscription, poll, acknowledgement, errors, in versions 3.1 and 4.0, and the end.
"""

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from authlib.integrations.base_client.errors import OAuthError

from tests.events.client_keys import jwks
from tests.faults.server_process import ServerProcess, run_command
from tests.field.tpp import SIGNING_KEY, TIMEOUT_SECONDS, V3, V4, Tpp, tls_context
from tests.pki import TPP_DN, pki
from tests.server.tls_connection import TlsConnection
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow

METHODS: dict[str, dict[str, Any]] = {
    "private_key_jwt": {"jwks": jwks(SIGNING_KEY)},
    "tls_client_auth": {"tls_client_auth_subject_dn": TPP_DN, "jwks": jwks(SIGNING_KEY)},
}
RESOURCE_UPDATE = "urn:uk:org:openbanking:events:resource-update"
RESOURCE = "https://bank.example/open-banking/v4.0/pisp/domestic-payments/pmt-7290"
SUBJECT = {
    "subject_type": "http://openbanking.org.uk/rid_http://openbanking.org.uk/rty",
    "http://openbanking.org.uk/rid": "pmt-7290",
    "http://openbanking.org.uk/rty": "domestic-payment",
    "http://openbanking.org.uk/rlk": [{"version": "v4.0", "link": RESOURCE}],
}
# A TPP that waits for the last of several events polls fast.
NO_RATE_LIMIT = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000")
HEALTH = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Bank:
    """A running server, and an operator with an API key."""

    def __init__(self, server: ServerProcess, key: str) -> None:
        self.url = f"https://localhost:{server.port}"
        self._operator = httpx.Client(
            base_url=self.url,
            verify=tls_context(None),
            headers={"authorization": f"Bearer {key}"},
            timeout=TIMEOUT_SECONDS,
        )

    def register(self, client_id: str, method: str) -> None:
        body = {"client_id": client_id, "name": "Example TPP", "token_endpoint_auth_method": method}
        scope = {"scope": "eventpolling accounts"}
        assert self._post("/admin/clients", {**body, **scope, **METHODS[method]}) == {"client_id": client_id}

    def publish(self, client_id: str) -> str:
        events = {RESOURCE_UPDATE: {"subject": SUBJECT}}
        published = self._post("/admin/events", {"client_id": client_id, "sub": RESOURCE, "events": events})
        return str(published["jti"])

    def status_of(self, client_id: str) -> Any:
        return self._operator.get(f"/admin/events/clients/{client_id}").json()

    def suspend(self, client_id: str) -> None:
        self._post(f"/admin/clients/{client_id}/suspend", None)

    def _post(self, path: str, body: Any) -> Any:
        response = self._operator.post(path, json=body) if body is not None else self._operator.post(path)
        assert response.is_success, response.text
        return response.json()

    def close(self) -> None:
        self._operator.close()


@contextmanager
def running_bank(data: Path, *database: str) -> Iterator[Bank]:
    created = run_command(data, "init", "--key", "operator", "--json", *database)
    assert created.code == 0, created.error
    files = ("--tls-certificate", str(pki().server.certificate), "--tls-key", str(pki().server.key))
    server = ServerProcess(data, *database, *NO_RATE_LIMIT, *files, "--tls-client-ca", str(pki().authority.certificate))
    try:
        server.start()
        wait_until_ready(server)
        with closing(Bank(server, json.loads(created.output)["key"]["token"])) as bank:
            yield bank
    finally:
        server.end()


def wait_until_ready(server: ServerProcess) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_ready(server):
        assert server.process.poll() is None, server.log_text()
        assert time.monotonic() < deadline, server.log_text()
        time.sleep(0.02)


def is_ready(server: ServerProcess) -> bool:
    try:
        with TlsConnection(server.port) as wire:
            return wire.request(HEALTH).status == 200
    except (ssl.SSLError, OSError, EOFError):
        return False


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    database: tuple[str, ...] = ()
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        database = ("--database", postgres.migrated())
    with running_bank(tmp_path_factory.mktemp("bank") / "data", *database) as bank:
        yield bank


@contextmanager
def registered_tpp(bank: Bank, client_id: str, method: str) -> Iterator[Tpp]:
    bank.register(client_id, method)
    has_assertions = method == "private_key_jwt"
    with closing(Tpp(bank.url, client_id, pki().tpp, has_assertions=has_assertions)) as tpp:
        yield tpp


def error_code(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["Errors"][0]["ErrorCode"])


@pytest.mark.parametrize("method", METHODS)
def test_tpp_subscribes_polls_acknowledges_and_leaves(bank: Bank, method: str) -> None:
    client_id = f"life-{method}"
    with registered_tpp(bank, client_id, method) as tpp:
        token = tpp.log_in()
        assert (token["token_type"], token["scope"]) == ("Bearer", "eventpolling accounts")

        # A subscription made by version 3.1 and changed by version 4.0 is one subscription.
        created = tpp.subscribe(V3, {"Data": {"Version": "3.1", "EventTypes": [RESOURCE_UPDATE], "Purpose": "x"}})
        assert created.status_code == 201, created.text
        subscription = created.json()["Data"]["EventSubscriptionId"]
        assert error_code(tpp.subscribe(V3, {"Data": {"Version": "3.1"}}), 409) == (
            "UK.OBIE.Rules.ResourceAlreadyExists"
        )
        assert error_code(tpp.subscribe(V4, {"Data": {"Version": "4.0"}}), 409) == "U029"
        changed = {**created.json(), "Data": {**created.json()["Data"], "Version": "4.0"}}
        assert tpp.change_subscription(V4, subscription, changed).status_code == 200
        [shown] = tpp.request("GET", f"{V4}/event-subscriptions").json()["Data"]["EventSubscription"]
        assert (shown["EventSubscriptionId"], shown["Version"]) == (subscription, "4.0")

        # Three events: one is acknowledged, one is an error, one is acknowledged through the other version.
        published = [bank.publish(client_id) for _ in range(3)]
        events = tpp.collect(V3, 3)
        assert list(events) == published
        assert {(each["aud"], each["sub"]) for each in events.values()} == {(client_id, RESOURCE)}
        error = {"err": "jwtIss", "description": "Issuer is invalid", "support": "ticket 7"}
        report = json.dumps({"ack": [published[0]], "setErrs": {published[1]: error}, "returnImmediately": True})
        rest = tpp.poll(V4, report[:-1] + ', "maxEvents": 1e1}').json()
        assert (list(rest["sets"]), rest["moreAvailable"]) == ([published[2]], False)
        done = tpp.poll(V3, json.dumps({"maxEvents": 0, "ack": [published[2]]}))
        assert done.json() == {"sets": {}, "moreAvailable": False}
        status = bank.status_of(client_id)
        assert (status["waiting"], status["errored"]) == (0, 1)

        # Each version has its own error codes.
        assert error_code(tpp.poll(V3, '{"maxEvents": -1}'), 400) == "UK.OBIE.Field.Invalid"
        assert error_code(tpp.poll(V4, '{"maxEvents": -1}'), 400) == "U002"

        assert tpp.request("DELETE", f"{V3}/event-subscriptions/{subscription}").status_code == 204
        assert error_code(tpp.request("DELETE", f"{V4}/event-subscriptions/{subscription}"), 404) == "U011"
        bank.suspend(client_id)
        assert tpp.poll(V4, "{}").status_code == 401
        with pytest.raises(OAuthError, match="invalid_client"):
            tpp.log_in()


@pytest.mark.parametrize("method", METHODS)
def test_token_is_bound_to_the_certificate(bank: Bank, method: str) -> None:
    with registered_tpp(bank, f"bound-{method}", method) as tpp:
        headers = {"authorization": f"Bearer {tpp.log_in()['access_token']}", "content-type": "application/json"}
        for certificate, status in ((pki().tpp, 200), (pki().other_tpp, 401), (None, 401)):
            with httpx.Client(verify=tls_context(certificate), timeout=TIMEOUT_SECONDS) as client:
                polled = client.post(f"{bank.url}{V4}/events", headers=headers, content='{"returnImmediately": true}')
                assert polled.status_code == status


def test_certificate_of_another_tpp_gets_no_token(bank: Bank) -> None:
    bank.register("impersonated", "tls_client_auth")
    tpp = Tpp(bank.url, "impersonated", pki().other_tpp, has_assertions=False)
    with closing(tpp), pytest.raises(OAuthError, match="invalid_client"):
        tpp.log_in()
