"""Mutual TLS in the server: real connections, certificates issued by openssl."""

import contextlib
import dataclasses
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from structlog.testing import capture_logs

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from tests.pki import TPP_DN, CertificateFiles, pki
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer
from tests.server.tls_connection import SETTINGS, TlsConnection, post

FORM = "application/x-www-form-urlencoded"
# A hello that offers TLS 1.1 and one cipher, and nothing else.
HELLO_OF_TLS_1_1 = bytes.fromhex("160302002d010000290302" + "00" * 32 + "00" + "0002002f" + "0100")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    # Only the handshake itself ends a failed one, not its time limit.
    server = LiveServer(tmp_path_factory.mktemp("tls"), header_deadline_seconds=600.0, **SETTINGS)
    registration = ClientRegistration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN)
    server.node.database.write_now(clients.add, registration)
    server.node.database.write_now(
        clients.add, dataclasses.replace(registration, client_id="two", subject_dn="CN=tpp two,O=Other TPP Ltd,C=GB")
    )
    yield server
    server.close()


def token_request(client_id: str = "tpp") -> bytes:
    form = {"grant_type": "client_credentials", "client_id": client_id}
    return post("/token", urlencode(form).encode(), media_type=FORM)


def ask(server: LiveServer, certificate: CertificateFiles | None, request: bytes) -> tuple[int, bytes]:
    with TlsConnection(server.fast_port, certificate) as wire:
        answer = wire.request(request)
        return answer.status, answer.body


def token(server: LiveServer, certificate: CertificateFiles, client_id: str = "tpp") -> str:
    status, body = ask(server, certificate, token_request(client_id))
    assert status == 200, body
    return str(json.loads(body)["access_token"])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_without_certificate_may_use_open_routes(server: LiveServer, version: ssl.TLSVersion) -> None:
    with TlsConnection(server.fast_port, version=version) as wire:
        assert wire.request(HEALTH).status == 200


def test_plain_http_gets_no_response_and_a_log_line(server: LiveServer) -> None:
    with capture_logs() as logs, server.connect() as wire:
        wire.send(HEALTH)
        with contextlib.suppress(ConnectionResetError):
            assert wire.socket.recv(100) == b""
    assert [entry["reason"] for entry in logs] == ["the client sent plain HTTP"]


def logged_reasons(logs: list[Any]) -> list[str]:
    return [entry["reason"] for entry in logs if entry["event"] == "TLS handshake failed"]


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_older_tls_versions_end_with_an_alert_and_a_log_line(server: LiveServer, logs: list[Any], version: str) -> None:
    """Uses openssl's client with every cipher enabled, so the server is the one that refuses."""
    command = [
        "openssl",
        "s_client",
        "-connect",
        f"127.0.0.1:{server.fast_port}",
        version,
        "-cipher",
        "ALL:@SECLEVEL=0",
    ]
    result = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert result.returncode != 0
    assert b"alert protocol version" in result.stderr
    assert b"Cipher is (NONE)" in result.stdout
    assert logged_reasons(logs) == ["the client offers no TLS version from 1.2 on"]


def test_openssl_client_with_tls_1_2_connects(server: LiveServer) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.fast_port}", "-tls1_2"]
    result = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert b"Protocol  : TLSv1.2" in result.stdout


def request_health(port: int, certificate: CertificateFiles, **more: Any) -> None:
    """In TLS 1.3 the client notices a refused certificate only with the first bytes it reads."""
    with TlsConnection(port, certificate, **more) as wire:
        wire.request(HEALTH)


@pytest.mark.parametrize(
    ("name", "alert", "problem"),
    [
        ("expired", "SSLV3_ALERT_CERTIFICATE_EXPIRED", "certificate has expired"),
        ("foreign", "TLSV1_ALERT_UNKNOWN_CA", "unable to get local issuer certificate"),
    ],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_invalid_client_certificate_ends_with_an_alert_and_a_log_line(
    server: LiveServer, logs: list[Any], name: str, alert: str, problem: str, version: ssl.TLSVersion
) -> None:
    with pytest.raises(ssl.SSLError) as raised:
        request_health(server.fast_port, getattr(pki(), name), version=version)
    assert raised.value.reason == alert
    assert logged_reasons(logs) == [f"the client's certificate is not accepted: {problem}"]
    # The next client is served.
    request_health(server.fast_port, pki().tpp, version=version)


def test_client_that_does_not_trust_the_server_is_logged(server: LiveServer, logs: list[Any]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        request_health(server.fast_port, pki().tpp, trusting=pki().foreign_authority)
    server.wait_until(lambda: bool(logged_reasons(logs)))
    (reason,) = logged_reasons(logs)
    assert reason.startswith("the client refuses: ")


def test_client_that_stays_after_the_alert_is_disconnected(server: LiveServer, logs: list[Any]) -> None:
    """It ignores the alert and keeps sending: the server does not collect what it sends."""
    with server.connect() as wire:
        wire.send(HELLO_OF_TLS_1_1)
        assert wire.socket.recv(100)[:1] == b"\x15", "an alert"
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                wire.send(b"x" * 1000)
    assert len(logged_reasons(logs)) == 1


def test_connection_without_a_handshake_is_not_logged(server: LiveServer, logs: list[Any]) -> None:
    """As of a load balancer that checks the port."""
    with server.connect():
        pass
    request_health(server.fast_port, pki().tpp)
    assert logged_reasons(logs) == []


def test_token_needs_certificate_of_the_client(server: LiveServer) -> None:
    assert token(server, pki().tpp).startswith("et_")
    for certificate in (None, pki().other_tpp):
        status, body = ask(server, certificate, token_request())
        assert (status, json.loads(body)["error"]) == (401, "invalid_client")


def test_client_cert_header_is_ignored_without_proxy(server: LiveServer) -> None:
    form = urlencode({"grant_type": "client_credentials", "client_id": "tpp"}).encode()
    forged = post("/token", form, f"Client-Cert: {pki().tpp.header}", media_type=FORM)
    assert ask(server, None, forged)[0] == 401
    assert ask(server, pki().other_tpp, forged)[0] == 401


def test_endless_handshake_is_closed(tmp_path: Path) -> None:
    server = LiveServer(tmp_path, header_deadline_seconds=0.1, **SETTINGS)
    try:
        with socket.create_connection(("127.0.0.1", server.fast_port), timeout=TIMEOUT_SECONDS) as silent:
            silent.sendall(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(1) == b""
    finally:
        server.close()


class ReloadableServer:
    """A server whose TLS files can be replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put(pki().server, pki().authority)
        self.server = LiveServer(
            folder,
            tls_certificate=folder / "server.crt",
            tls_key=folder / "server.key",
            tls_client_ca=folder / "clients.crt",
        )

    def put(self, server: CertificateFiles, clients_authority: CertificateFiles) -> None:
        shutil.copy(server.certificate, self.folder / "server.crt")
        shutil.copy(server.key, self.folder / "server.key")
        shutil.copy(clients_authority.certificate, self.folder / "clients.crt")


@pytest.fixture
def reloadable(tmp_path: Path) -> Iterator[ReloadableServer]:
    reloadable = ReloadableServer(tmp_path)
    yield reloadable
    reloadable.server.close()


def test_reloaded_files_apply_to_new_connections_only(reloadable: ReloadableServer) -> None:
    port = reloadable.server.fast_port
    new_server = pki().issue("/CN=localhost", by=pki().foreign_authority, names="DNS:localhost")
    with TlsConnection(port, pki().tpp) as before:
        assert before.request(HEALTH).status == 200
        reloadable.put(new_server, pki().foreign_authority)
        assert reloadable.server.wait_for(reloadable.server.listening_server.reload())
        assert before.request(HEALTH).status == 200
    # The server has another certificate, and accepts clients of the new authority only.
    with TlsConnection(port, pki().foreign, trusting=pki().foreign_authority) as wire:
        assert wire.request(HEALTH).status == 200
    with pytest.raises((ssl.SSLError, ConnectionResetError, EOFError)):
        request_health(port, pki().tpp, trusting=pki().foreign_authority)
    assert reloadable.server.listening_server.reloads == 1


def test_unusable_files_change_nothing(reloadable: ReloadableServer) -> None:
    (reloadable.folder / "server.crt").write_text("nonsense")
    assert not reloadable.server.wait_for(reloadable.server.listening_server.reload())
    with TlsConnection(reloadable.server.fast_port, pki().tpp) as wire:
        assert wire.request(HEALTH).status == 200


def test_without_tls_there_is_nothing_to_reload(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        assert not server.wait_for(server.listening_server.reload())
    finally:
        server.close()


@pytest.mark.parametrize("certificate", [None, pki().tpp], ids=["no certificate", "certificate"])
def test_session_is_resumed_until_the_files_are_reloaded(
    reloadable: ReloadableServer, certificate: CertificateFiles | None
) -> None:
    context = ssl.create_default_context(cafile=pki().authority.certificate)
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)

    def connect(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        raw = socket.create_connection(("127.0.0.1", reloadable.server.fast_port), timeout=TIMEOUT_SECONDS)
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as wire:
            wire.sendall(HEALTH)
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
            return wire.session_reused, wire.session

    is_resumed, session = connect(None)
    assert not is_resumed
    is_resumed, session = connect(session)
    assert is_resumed
    assert reloadable.server.wait_for(reloadable.server.listening_server.reload())
    assert connect(session)[0] is False
