"""A real nginx in front that terminates mutual TLS and passes the certificate on; and attempts to bypass it."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from restante.server.config.setting_types import NetworkList
from tests.pki import TPP_DN, CertificateFiles, pki
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer, RawConnection, RawResponse
from tests.server.tls_connection import TlsConnection, post

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
FORM = "application/x-www-form-urlencoded"
POLL = b'{"returnImmediately":true}'

pytestmark = pytest.mark.skipif(not Path(NGINX).exists(), reason="nginx is not installed")


class NginxFront(NamedTuple):
    server: LiveServer
    port: int


CONFIG = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate {server.certificate};
        ssl_certificate_key {server.key};
        ssl_client_certificate {authority.certificate};
        ssl_verify_client optional;
        location / {{
            proxy_pass http://127.0.0.1:{upstream_port};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header Client-Cert $ssl_client_escaped_cert;
        }}
    }}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxFront]:
    folder = tmp_path_factory.mktemp("nginx")
    trusted = NetworkList().parse("127.0.0.1")
    server = LiveServer(folder, trusted_proxies=trusted, public_url="https://localhost")
    write = server.node.database.write_now
    write(clients.add, ClientRegistration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN))
    process, port = start_nginx(folder, server.fast_port)
    try:
        yield NginxFront(server, port)
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
        server.close()


def start_nginx(folder: Path, upstream_port: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start nginx on a free port; if another process took the port meanwhile, on another one."""
    for _ in range(5):
        port = free_port()
        config = folder / "nginx.conf"
        config.write_text(
            CONFIG.format(
                folder=folder, port=port, upstream_port=upstream_port, server=pki().server, authority=pki().authority
            )
        )
        command = [NGINX, "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
        if is_listening(process, port):
            return process, port
        process.wait(TIMEOUT_SECONDS)
    raise AssertionError((folder / "error.log").read_text())


def is_listening(process: "subprocess.Popen[bytes]", port: int) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    process.terminate()
    return False


def send_through(front: NginxFront, certificate: CertificateFiles | None, request: bytes) -> RawResponse:
    with TlsConnection(front.port, certificate) as wire:
        wire.send(request)
        # nginx spells header names differently, so http.client parses the response.
        response = HTTPResponse(wire.socket)
        response.begin()
        return RawResponse(response.status, [], response.read())


def token_request(*lines: str) -> bytes:
    form = urlencode({"grant_type": "client_credentials", "client_id": "tpp"}).encode()
    return post("/token", form, *lines, media_type=FORM)


def token(front: NginxFront) -> str:
    response = send_through(front, pki().tpp, token_request())
    assert response.status == 200, response.body
    return str(json.loads(response.body)["access_token"])


def poll(access_token: str, *lines: str) -> bytes:
    return post("/events", POLL, f"Authorization: Bearer {access_token}", *lines)


def test_certificate_is_passed_on(front: NginxFront) -> None:
    access_token = token(front)
    assert send_through(front, pki().tpp, poll(access_token)).status == 200
    for other in (pki().other_tpp, None):
        assert send_through(front, other, poll(access_token)).status == 401


def test_clients_own_header_is_replaced(front: NginxFront) -> None:
    forged = f"Client-Cert: {pki().tpp.header}"
    for other in (pki().other_tpp, None):
        assert send_through(front, other, token_request(forged)).status == 401
        assert send_through(front, other, poll(token(front), forged)).status == 401


@pytest.mark.parametrize("name", ["expired", "foreign"])
def test_certificate_refused_by_nginx_is_refused(front: NginxFront, name: str) -> None:
    assert send_through(front, getattr(pki(), name), token_request()).status == 400


def test_rfc_9440_header_from_trusted_address_is_accepted(front: NginxFront) -> None:
    with RawConnection(front.server.fast_port) as wire:
        response = wire.request(token_request(f"Client-Cert: {pki().tpp.header}"))
        assert response.status == 200, response.body
        access_token = json.loads(response.body)["access_token"]
        assert wire.request(poll(access_token, f"Client-Cert: {pki().tpp.header}")).status == 200
        assert wire.request(poll(access_token, f"Client-Cert: {pki().other_tpp.header}")).status == 401
        assert wire.request(poll(access_token, "Client-Cert: nonsense")).status == 401
        assert wire.request(poll(access_token)).status == 401
        assert wire.request(poll(access_token, *[f"Client-Cert: {pki().tpp.header}"] * 2)).status == 401


def test_header_from_untrusted_address_is_refused(tmp_path: Path) -> None:
    """The attacker calls the server directly, from an address that is not the proxy's."""
    server = LiveServer(tmp_path, trusted_proxies=NetworkList().parse("192.0.2.1"), public_url="https://localhost")
    try:
        server.node.database.write_now(
            clients.add, ClientRegistration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN)
        )
        with server.connect() as wire:
            refused = wire.request(token_request(f"Client-Cert: {pki().tpp.header}"))
        assert (refused.status, json.loads(refused.body)["error"]) == (400, "invalid_request")
    finally:
        server.close()


def test_open_route_needs_no_certificate(front: NginxFront) -> None:
    assert send_through(front, None, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200
