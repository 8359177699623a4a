"""Client certificates that their authority has revoked: refused in the handshake, and on connections that are open."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from restante.server.config.settings_sources import SettingsError, load
from restante.server.http.tls.files import TlsFiles, TlsFilesError
from tests.pki import CertificateFiles, pki
from tests.server.live_server import LiveServer
from tests.server.tls_connection import SETTINGS, TlsConnection

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
REFUSED = (ssl.SSLError, ConnectionResetError, EOFError)


def revocation_list(authority: CertificateFiles, *revoked: CertificateFiles, days: int = 30) -> bytes:
    now = datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes()).subject
    builder = x509.CertificateRevocationListBuilder(issuer, now - timedelta(days=60), now + timedelta(days=days))
    for each in revoked:
        serial = x509.load_pem_x509_certificate(each.certificate.read_bytes()).serial_number
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder(serial, now - timedelta(days=1)).build()
        )
    key = load_pem_private_key(authority.key.read_bytes(), None)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]


@pytest.fixture
def client_crl(tmp_path: Path) -> Path:
    path = tmp_path / "clients.crl"
    path.write_bytes(revocation_list(pki().authority, pki().other_tpp))
    return path


@pytest.fixture
def server(tmp_path: Path, client_crl: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path, client_crl=client_crl, **SETTINGS)
    yield server
    server.close()


def status(server: LiveServer, certificate: CertificateFiles | None) -> int:
    with TlsConnection(server.fast_port, certificate) as wire:
        return wire.request(HEALTH).status


def test_revoked_certificate_is_refused_and_others_are_not(server: LiveServer) -> None:
    assert status(server, pki().tpp) == 200
    assert status(server, None) == 200
    with pytest.raises(REFUSED):
        status(server, pki().other_tpp)


def test_reloaded_list_ends_open_connections_of_the_revoked_certificate(server: LiveServer, client_crl: Path) -> None:
    with TlsConnection(server.fast_port, pki().tpp) as revoked, TlsConnection(server.fast_port) as other:
        assert revoked.request(HEALTH).status == 200
        assert other.request(HEALTH).status == 200
        client_crl.write_bytes(revocation_list(pki().authority, pki().tpp))
        assert server.wait_for(server.listening_server.reload())
        assert revoked.is_closed_by_server()
        assert other.request(HEALTH).status == 200
    with pytest.raises(REFUSED):
        status(server, pki().tpp)
    # The list replaces the one before.
    assert status(server, pki().other_tpp) == 200


def test_unusable_list_changes_nothing(server: LiveServer, client_crl: Path) -> None:
    client_crl.write_text("nonsense")
    assert not server.wait_for(server.listening_server.reload())
    assert status(server, pki().tpp) == 200
    with pytest.raises(REFUSED):
        status(server, pki().other_tpp)


@pytest.mark.parametrize("content", ["expired", "another authority's"])
def test_certificates_without_a_current_list_are_refused(server: LiveServer, client_crl: Path, content: str) -> None:
    lists = {
        "expired": revocation_list(pki().authority, days=-1),
        "another authority's": revocation_list(pki().foreign_authority),
    }
    client_crl.write_bytes(lists[content])
    assert server.wait_for(server.listening_server.reload())
    with pytest.raises(REFUSED):
        status(server, pki().tpp)
    assert status(server, None) == 200


def test_file_may_hold_the_lists_of_several_authorities(server: LiveServer, client_crl: Path) -> None:
    foreign, own = revocation_list(pki().foreign_authority), revocation_list(pki().authority, pki().tpp)
    client_crl.write_bytes(foreign + own)
    assert server.wait_for(server.listening_server.reload())
    with pytest.raises(REFUSED):
        status(server, pki().tpp)
    assert status(server, pki().other_tpp) == 200


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN X509 CRL-----\nnonsense\n-----END X509 CRL-----\n"])
def test_unusable_list_refuses_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.crl"
    path.write_text(text)
    files = TlsFiles(SETTINGS["tls_certificate"], SETTINGS["tls_key"], SETTINGS["tls_client_ca"], path)
    with pytest.raises(TlsFilesError, match=r"bad\.crl"):
        files.context()


def test_list_without_authorities_is_refused(client_crl: Path) -> None:
    with pytest.raises(SettingsError, match="client_crl: expected together with tls_client_ca"):
        load({"client_crl": str(client_crl)}, {})
