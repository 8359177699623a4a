"""The pages of certificates by their end: what they show to whom, renewal and revocation by hand."""

import time

from restante.database.paging import PageRequest
from restante.identity import access_audit
from restante.updates.pki import certificates
from tests.console.console_server import ConsoleClient, ConsoleServer
from tests.server.live_server import TIMEOUT_SECONDS

DAY = 86_400


def issued(server: ConsoleServer, name: str, days: int = 20) -> int:
    fleet = server.fleet
    certificate = fleet.add_certificate(fleet.add_account(fleet.add_authority(name=f"CA of {name}").id).id, name)
    fleet.issue(certificate.id, days * DAY)
    return certificate.id


def path_of(server: ConsoleServer, certificate_id: int) -> str:
    return f"/console/certificates/{server.owner_id}/{certificate_id}"


def test_list_shows_ends_renewals_and_failures(server: ConsoleServer) -> None:
    good, bad = issued(server, "good.example"), issued(server, "bad.example")
    assert server.fail_renewal("the account <b> is gone") == bad
    with server.client("fleet") as fleet:
        page = fleet.get("/console/certificates").text
        assert path_of(server, good) in page
        assert "CA of good.example" in page
        failed = fleet.get("/console/certificates?renewal=failed").text
        assert path_of(server, good) not in failed
        assert "the account &lt;b&gt; is gone" in failed
        assert "the account &lt;b&gt; is gone" in fleet.get(path_of(server, bad)).text
        wait_for_attention(fleet, "Renewals of certificates failed")
        assert fleet.get("/console/certificates?renewal=odd").status_code == 400
        assert fleet.get("/console/certificates?days=7").status_code == 400
        found = fleet.get("/console/search?q=good.exam")
        assert found.headers["location"] == path_of(server, good)


def test_certificate_that_ends_soon_and_is_not_renewed_needs_attention(server: ConsoleServer) -> None:
    certificate_id = issued(server, "soon.example")
    with server.client("fleet") as fleet:
        done = fleet.post(path_of(server, certificate_id) + "/auto-renew", auto_renew="false")
        assert done.headers["location"].endswith("done=certificate-renewal-off")
        wait_for_attention(fleet, "Certificates end soon")
        listed = fleet.get("/console/certificates?renewal=off&days=30").text
        assert path_of(server, certificate_id) in listed
        fleet.post(path_of(server, certificate_id) + "/auto-renew", auto_renew="true")
        assert path_of(server, certificate_id) not in fleet.get("/console/certificates?renewal=off").text


def test_renewal_by_hand_clears_the_failure_and_records_the_person(server: ConsoleServer) -> None:
    certificate_id = issued(server, "renewed.example")
    server.fail_renewal()
    before = server.database.read_now(certificates.get, server.owner_id, certificate_id).serial
    with server.client("fleet") as fleet:
        done = fleet.post(path_of(server, certificate_id) + "/renew")
        assert done.headers["location"].endswith("done=certificate-renewed")
        assert "renewal failed" not in fleet.get(path_of(server, certificate_id)).text
    assert server.database.read_now(certificates.get, server.owner_id, certificate_id).serial != before
    assert ("fleet@example.com", "certificate.renewed") in recorded(server)


def test_revocation_needs_a_reason_of_the_list(server: ConsoleServer) -> None:
    certificate_id = issued(server, "revoked.example")
    with server.client("fleet") as fleet:
        assert fleet.post(path_of(server, certificate_id) + "/revoke", reason="because").status_code == 400
        done = fleet.post(path_of(server, certificate_id) + "/revoke", reason="key_compromise")
        assert done.headers["location"].endswith("done=certificate-revoked")
        page = fleet.get(path_of(server, certificate_id)).text
        assert "/revoke" not in page
    assert server.database.read_now(certificates.get, server.owner_id, certificate_id).status == "revoked"
    assert ("fleet@example.com", "certificate.revoked") in recorded(server)


def test_person_sees_certificates_of_own_users_only(server: ConsoleServer) -> None:
    certificate_id = issued(server, "foreign.example")
    server.user_ids["owner-of-none"] = server.add_person("owner-of-none", "operator@all")
    with server.client("owner-of-none") as owner:
        assert "foreign.example" not in owner.get("/console/certificates").text
        assert owner.get(path_of(server, certificate_id)).status_code == 404
        for action in ("renew", "auto-renew", "revoke"):
            assert owner.post(f"{path_of(server, certificate_id)}/{action}").status_code == 404
    with server.client("bank") as bank:
        assert bank.get("/console/certificates").status_code == 404


def wait_for_attention(client: ConsoleClient, text: str) -> None:
    """Read the overview until it shows this: all overviews share one reading for a second."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while text not in client.get("/console").text:
        assert time.monotonic() < deadline, text


def recorded(server: ConsoleServer) -> list[tuple[str, str]]:
    changes = server.database.read_now(access_audit.list_page, None, None, PageRequest(200, 0)).items
    return [(change.actor, change.event) for change in changes]
