"""A device's whole life with the certificate product's clients, against a real server process on both engines.

Device code, registration, authority, certificate, bundle opened with the device's key, renewal, revocation.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from tests.faults.server_process import NO_RATE_LIMIT, ServerProcess, run_command, running_server
from tests.field.certificate_product import NEWER, OLDER, Agent, Scripts
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow

EMAIL = "owner@example.com"
PASSWORD = "StrongPass1!"
# Every role but the one that wraps keys.
WITHOUT_WRAPPING = "api,dispatcher,retention"


class Deployment:
    """A data folder with a user, and the flags of its servers."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        self._data = folder / "data"
        self._flags = ("--database", database_url) if database_url else ()
        added = run_command(
            self._data, "init", "--user", EMAIL, "--role", "operator", "--password-stdin", *self._flags, stdin=PASSWORD
        )
        assert added.code == 0, added.error

    @contextmanager
    def running(self, *flags: str) -> Iterator[ServerProcess]:
        with running_server(self._data, *NO_RATE_LIMIT, *self._flags, *flags) as server:
            yield server


@pytest.fixture(params=["sqlite", "postgres"])
def deployment(tmp_path: Path, request: pytest.FixtureRequest) -> Deployment:
    if request.param == "sqlite":
        return Deployment(tmp_path, None)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return Deployment(tmp_path, postgres.migrated())


def address(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


@contextmanager
def signed_in(server: ServerProcess) -> Iterator[Scripts]:
    with closing(Scripts(address(server))) as scripts:
        scripts.sign_in(EMAIL, PASSWORD)
        yield scripts


def onboard(scripts: Scripts, agent: Agent) -> None:
    """Device code and registration."""
    started = agent.start_device_code()
    scripts.approve(started["user_code"])
    ready = agent.poll_device_code(started["device_code"])
    assert (ready["status"], ready["user_id"]) == ("ready", scripts.user_id)
    agent.register(ready["registration_code"])


def check_certificate(agent: Agent, cert_id: int, serial: str) -> None:
    """The installed key belongs to the installed certificate, and the installed authority verifies it."""
    bundle = agent.certificates[cert_id]
    assert bundle["serial"] == serial
    leaf, issuer = x509.load_pem_x509_certificates(bundle["fullchain_pem"].encode())
    assert agent.open_key(bundle).public_key() == leaf.public_key()
    assert leaf.subject.rfc4514_string() == "CN=capture-bundle.local,OU=IT,O=Test Org,L=San Jose,ST=CA,C=US"
    (authority,) = agent.authorities.values()
    trusted = x509.load_pem_x509_certificate(authority["ca_certificate_pem"].encode())
    assert issuer == trusted
    policy = PolicyBuilder().store(Store([trusted])).time(datetime.now(UTC))
    policy.build_server_verifier(x509.DNSName("www.capture-bundle.local")).verify(leaf, [])


@pytest.mark.parametrize("generation", [OLDER, NEWER], ids=["older agent", "newer agent"])
def test_device_from_onboarding_to_revocation(deployment: Deployment, generation: dict[str, bool]) -> None:
    with (
        deployment.running() as server,
        closing(Agent(address(server), generation)) as agent,
        closing(Scripts(address(server))) as scripts,
    ):
        assert scripts.send("GET", "/health").status_code == 200
        assert scripts.data("GET", "/auth/status")["user"] is None
        login = scripts.sign_in(EMAIL, PASSWORD)
        assert (login["user"]["email"], login["user"]["roles"], login["to"]) == (EMAIL, ["operator"], "/")
        assert scripts.data("GET", "/auth/status")["user"] == login["user"]
        onboard(scripts, agent)
        live(scripts, agent)


def live(scripts: Scripts, agent: Agent) -> None:
    assert agent.poll(wait=0) == []
    assert agent.notify() == 204
    devices = scripts.data("GET", scripts.own("/devices"))
    assert [(device["id"], device["agent_version"]) for device in devices] == [(agent.id, "1.4.2")]
    assert scripts.data("GET", "/apiv1/me/devices") == devices

    # The script registers the device a second time, with its session and its refresh token, at both paths.
    for path in ("/apiv1/device/registration", scripts.own("/devices")):
        device_id, used = agent.id, agent.refresh_token
        agent.keep_registration(scripts.data("POST", path, agent.registration(refresh_token=used)))
        assert (agent.id, agent.refresh_token == used) == (device_id, False)
    agent.refresh()

    # An authority, an account and a certificate. The certificate is assigned before it is issued.
    authority = scripts.create_authority()
    assert authority["key_usage"] == "keyCertSign,cRLSign"
    account = scripts.create_account(authority["id"])
    cert_id = scripts.create_certificate(account["id"])
    at = scripts.own(f"/devices/{agent.id}")
    scripts.data("POST", f"{at}/cas", {"ca_id": authority["id"]})
    assert agent.poll_until("ca.assigned") == ["ca.assigned"]
    scripts.data("POST", f"{at}/certificates", {"cert_id": cert_id})
    early = agent.get(f"/certificates/{cert_id}/bundle?pack=download")
    assert (early.status_code, "WRAP_PENDING" in early.text) == (409, True)

    # The four lists that scripts read are arrays.
    assert [each["id"] for each in scripts.data("GET", f"{at}/cas")] == [authority["id"]]
    assert [each["id"] for each in scripts.data("GET", f"{at}/certificates")] == [cert_id]
    assert [each["id"] for each in scripts.data("GET", scripts.own("/acme-accounts"))] == [account["id"]]

    issued = scripts.issue(cert_id)
    assert agent.poll_until("cert.updated") == ["cert.wrap_ready", "cert.updated"]
    check_certificate(agent, cert_id, issued["serial"])

    scripts.put_install_config(agent.id, cert_id, authority["id"])
    assert agent.poll_until("install.updated") == ["install.updated"]
    assert agent.config is not None
    assert [item["ob_id"] for item in agent.config["installs"]] == [cert_id, authority["id"]]

    renewed = scripts.issue(cert_id)
    assert renewed["serial"] != issued["serial"]
    assert agent.poll_until("cert.updated") == ["cert.renewed", "cert.wrap_ready", "cert.updated"]
    check_certificate(agent, cert_id, renewed["serial"])

    # A device that lost its tokens asks again with its id.
    started = agent.start_device_code()
    scripts.approve(started["user_code"])
    again = agent.poll_device_code(started["device_code"], device_id=agent.id)
    assert (again["status"], again["user_id"]) == ("ready", scripts.user_id)
    agent.keep_tokens(again)

    scripts.data("DELETE", scripts.own(f"/certificates/{cert_id}"))
    assert agent.poll_until("cert.unassigned") == ["cert.revoked", "cert.unassigned"]
    assert agent.certificates == {}
    assert agent.get(f"/certificates/{cert_id}/bundle?pack=download").status_code == 404

    scripts.data("DELETE", f"{at}/cas/{authority['id']}")
    assert agent.poll_until("ca.unassigned") == ["ca.unassigned"]
    assert agent.authorities == {}
    scripts.data("DELETE", at)
    assert agent.get("/updates").status_code == 403


def test_device_is_registered_with_an_api_key_of_the_user(deployment: Deployment) -> None:
    with deployment.running() as server, signed_in(server) as scripts:
        permission = {"obtype": "ForDeviceAuthenticate", "obid": "*", "actions": ["authenticate", "validate", "revoke"]}
        body = {"name": "device-apikey-1", "permissions": [permission], "expires_in_seconds": 2592000}
        key = scripts.data("POST", scripts.own("/apikeys"), body)
        assert (key["name"], key["expires_in_seconds"]) == ("device-apikey-1", 2592000)
        with closing(Agent(address(server), NEWER)) as agent:
            bearer = {"Authorization": f"Bearer {key['token']}"}
            agent.keep_registration(scripts.data("POST", scripts.own("/devices"), agent.registration(), **bearer))
            assert agent.poll(wait=0) == []
            assert [device["id"] for device in scripts.data("GET", scripts.own("/devices"))] == [agent.id]
        other = f"/apiv1/users/{scripts.user_id + 1}/devices"
        for path in (other, "/apiv1/outbox", "/api/edge/v1/admin/sites"):
            assert scripts.send("GET", path, **bearer).status_code == 403
        assert scripts.send("DELETE", scripts.own(f"/apikeys/{key['id']}")).status_code == 204
        assert scripts.send("GET", scripts.own("/devices"), **bearer).status_code == 401


def test_bundle_is_wrap_pending_until_a_worker_wraps_it(deployment: Deployment) -> None:
    with (
        deployment.running("--roles", WITHOUT_WRAPPING) as server,
        signed_in(server) as scripts,
        closing(Agent(address(server), OLDER)) as agent,
    ):
        onboard(scripts, agent)
        cert_id = assign_issued_certificate(scripts, agent)
        pending = agent.get(f"/certificates/{cert_id}/bundle")
        assert (pending.status_code, "WRAP_PENDING" in pending.text) == (409, True)
        token = agent.access_token
    with deployment.running() as server, closing(Agent(address(server), OLDER)) as agent:
        agent.access_token = token
        agent.poll_until("cert.wrap_ready")
        assert cert_id in agent.certificates


def test_aliases_are_not_sent_if_they_are_switched_off(deployment: Deployment) -> None:
    with (
        deployment.running("--no-signal-aliases") as server,
        signed_in(server) as scripts,
        closing(Agent(address(server), OLDER)) as agent,
    ):
        onboard(scripts, agent)
        cert_id = assign_issued_certificate(scripts, agent)
        assert agent.poll_until("cert.wrap_ready") == ["cert.wrap_ready"]
        scripts.data("DELETE", scripts.own(f"/certificates/{cert_id}"))
        # An application may send the type itself.
        scripts.data("POST", scripts.own(f"/devices/{agent.id}/signals"), {"type": "cert.updated", "ref": {}})
        assert agent.poll_until("cert.updated") == ["cert.revoked", "cert.updated"]


def assign_issued_certificate(scripts: Scripts, agent: Agent) -> int:
    cert_id = scripts.create_certificate(scripts.create_account(scripts.create_authority()["id"])["id"])
    scripts.issue(cert_id)
    scripts.data("POST", scripts.own(f"/devices/{agent.id}/certificates"), {"cert_id": cert_id})
    return cert_id
