"""Mutual TLS terminated by the server itself: real connections, certificates made by openssl."""

import contextlib
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

from restante.events import clients
from restante.events.clients import Registration
from restante.server.tls_listening import ListeningServer
from tests.pki import TPP_DN, Pair, pki
from tests.server.serving import PATIENCE_SECONDS, Served
from tests.server.tls_wire import SETTINGS, TlsWire, post

FORM = "application/x-www-form-urlencoded"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("tls"), **SETTINGS)
    wish = Registration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN)
    served.node.database.write_now(clients.add, wish)
    served.node.database.write_now(
        clients.add, wish._replace(client_id="two", subject_dn="CN=tpp two,O=Other TPP Ltd,C=GB")
    )
    yield served
    served.close()


def token_request(client_id: str = "tpp") -> bytes:
    form = {"grant_type": "client_credentials", "client_id": client_id}
    return post("/token", urlencode(form).encode(), media_type=FORM)


def ask(served: Served, certificate: Pair | None, request: bytes) -> tuple[int, bytes]:
    with TlsWire(served.fast_port, certificate) as wire:
        answer = wire.ask(request)
        return answer.status, answer.body


def token(served: Served, certificate: Pair, client_id: str = "tpp") -> str:
    status, body = ask(served, certificate, token_request(client_id))
    assert status == 200, body
    return str(json.loads(body)["access_token"])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_has_no_certificate_is_served_what_needs_none(served: Served, version: ssl.TLSVersion) -> None:
    with TlsWire(served.fast_port, version=version) as wire:
        assert wire.ask(HEALTH).status == 200


def test_plain_http_is_not_answered(served: Served) -> None:
    with served.connect() as wire:
        wire.send(HEALTH)
        with contextlib.suppress(ConnectionResetError):
            assert wire.socket.recv(100)[:4] != b"HTTP"


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_older_versions_are_refused(served: Served, version: str) -> None:
    """By openssl's own client, allowed to speak anything: it is the server that refuses."""
    command = [
        "openssl",
        "s_client",
        "-connect",
        f"127.0.0.1:{served.fast_port}",
        version,
        "-cipher",
        "ALL:@SECLEVEL=0",
    ]
    tried = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert tried.returncode != 0
    # It has said hello, and the server has hung up.
    assert b"unexpected eof" in tried.stderr or b"alert protocol version" in tried.stderr
    assert b"Cipher is (NONE)" in tried.stdout


def test_the_same_client_with_tls_1_2_gets_in(served: Served) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{served.fast_port}", "-tls1_2"]
    tried = subprocess.run(command, input=b"", capture_output=True, timeout=60)
    assert b"Protocol  : TLSv1.2" in tried.stdout


def refused_health(port: int, certificate: Pair, **more: Any) -> None:
    """In TLS 1.3 the client learns of a refusal with the first bytes it reads."""
    with TlsWire(port, certificate, **more) as wire:
        wire.ask(HEALTH)


@pytest.mark.parametrize("name", ["expired", "foreign"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_that_does_not_hold_ends_the_handshake(
    served: Served, name: str, version: ssl.TLSVersion
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionResetError, EOFError)):
        refused_health(served.fast_port, getattr(pki(), name), version=version)


def test_a_certificate_is_needed_for_a_token_and_must_be_the_clients(served: Served) -> None:
    assert token(served, pki().tpp).startswith("et_")
    for certificate in (None, pki().other_tpp):
        status, body = ask(served, certificate, token_request())
        assert (status, json.loads(body)["error"]) == (401, "invalid_client")


def test_the_header_of_a_proxy_counts_for_nothing_here(served: Served) -> None:
    form = urlencode({"grant_type": "client_credentials", "client_id": "tpp"}).encode()
    forged = post("/token", form, f"Client-Cert: {pki().tpp.header}", media_type=FORM)
    assert ask(served, None, forged)[0] == 401
    assert ask(served, pki().other_tpp, forged)[0] == 401


def test_a_handshake_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    served = Served(tmp_path, header_deadline_seconds=0.1, **SETTINGS)
    try:
        with socket.create_connection(("127.0.0.1", served.fast_port), timeout=PATIENCE_SECONDS) as silent:
            silent.sendall(b"\x16\x03\x01")
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(1) == b""
    finally:
        served.close()


class Renewable:
    """A server whose files can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.put(pki().server, pki().authority)
        self.served = Served(
            folder,
            tls_certificate=folder / "server.crt",
            tls_key=folder / "server.key",
            tls_client_ca=folder / "clients.crt",
        )

    def put(self, server: Pair, clients_authority: Pair) -> None:
        shutil.copy(server.certificate, self.folder / "server.crt")
        shutil.copy(server.key, self.folder / "server.key")
        shutil.copy(clients_authority.certificate, self.folder / "clients.crt")

    @property
    def server(self) -> ListeningServer:
        server = self.served._servers[0]
        assert isinstance(server, ListeningServer)
        return server


@pytest.fixture
def renewable(tmp_path: Path) -> Iterator[Renewable]:
    renewable = Renewable(tmp_path)
    yield renewable
    renewable.served.close()


def test_new_files_count_for_new_connections_and_open_ones_stay(renewable: Renewable) -> None:
    port = renewable.served.fast_port
    new_server = pki().issue("/CN=localhost", by=pki().foreign_authority, names="DNS:localhost")
    with TlsWire(port, pki().tpp) as before:
        assert before.ask(HEALTH).status == 200
        renewable.put(new_server, pki().foreign_authority)
        assert renewable.served.wait_for(renewable.server.renew())
        assert before.ask(HEALTH).status == 200
    # Another certificate is shown, clients of the new authority get in, and those of the old one no more.
    with TlsWire(port, pki().foreign, trusting=pki().foreign_authority) as wire:
        assert wire.ask(HEALTH).status == 200
    with pytest.raises((ssl.SSLError, ConnectionResetError, EOFError)):
        refused_health(port, pki().tpp, trusting=pki().foreign_authority)
    assert renewable.server.renewals == 1


def test_files_that_cannot_be_used_change_nothing(renewable: Renewable) -> None:
    (renewable.folder / "server.crt").write_text("nonsense")
    assert not renewable.served.wait_for(renewable.server.renew())
    with TlsWire(renewable.served.fast_port, pki().tpp) as wire:
        assert wire.ask(HEALTH).status == 200


def test_without_tls_there_is_nothing_to_renew(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        server = served._servers[0]
        assert isinstance(server, ListeningServer)
        assert not served.wait_for(server.renew())
    finally:
        served.close()
