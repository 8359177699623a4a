"""A real nginx in front that terminates mutual TLS and passes the certificate on; and who tries to do without it."""

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

from restante.events import clients
from restante.events.clients import Registration
from restante.server.access_setting_kinds import Addresses
from tests.pki import TPP_DN, Pair, pki
from tests.server.serving import PATIENCE_SECONDS, Served, Wire, WireAnswer
from tests.server.tls_wire import TlsWire, post

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
FORM = "application/x-www-form-urlencoded"
POLL = b'{"returnImmediately":true}'

pytestmark = pytest.mark.skipif(not Path(NGINX).exists(), reason="nginx is not installed")


class Front(NamedTuple):
    served: Served
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
            proxy_pass http://127.0.0.1:{behind};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header Client-Cert $ssl_client_escaped_cert;
        }}
    }}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("nginx")
    trusted = Addresses().read("127.0.0.1")
    served = Served(folder, trusted_proxies=trusted, public_url="https://localhost")
    write = served.node.database.write_now
    write(clients.add, Registration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN))
    process, port = started(folder, served.fast_port)
    try:
        yield Front(served, port)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        served.close()


def started(folder: Path, behind: int) -> tuple[subprocess.Popen[bytes], int]:
    """nginx on a port that was free a moment ago: if somebody was faster, on another one."""
    for _ in range(5):
        port = free_port()
        config = folder / "nginx.conf"
        config.write_text(
            CONFIG.format(folder=folder, port=port, behind=behind, server=pki().server, authority=pki().authority)
        )
        command = [NGINX, "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
        if is_listening(process, port):
            return process, port
        process.wait(PATIENCE_SECONDS)
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


def through(front: Front, certificate: Pair | None, request: bytes) -> WireAnswer:
    with TlsWire(front.port, certificate) as wire:
        wire.send(request)
        # nginx spells headers in its own way.
        response = HTTPResponse(wire.socket)
        response.begin()
        return WireAnswer(response.status, [], response.read())


def token_request(*lines: str) -> bytes:
    form = urlencode({"grant_type": "client_credentials", "client_id": "tpp"}).encode()
    return post("/token", form, *lines, media_type=FORM)


def token(front: Front) -> str:
    answer = through(front, pki().tpp, token_request())
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["access_token"])


def poll(given: str, *lines: str) -> bytes:
    return post("/events", POLL, f"Authorization: Bearer {given}", *lines)


def test_the_certificate_arrives(front: Front) -> None:
    given = token(front)
    assert through(front, pki().tpp, poll(given)).status == 200
    for other in (pki().other_tpp, None):
        assert through(front, other, poll(given)).status == 401


def test_what_the_client_says_of_itself_is_replaced(front: Front) -> None:
    claim = f"Client-Cert: {pki().tpp.header}"
    for other in (pki().other_tpp, None):
        assert through(front, other, token_request(claim)).status == 401
        assert through(front, other, poll(token(front), claim)).status == 401


@pytest.mark.parametrize("name", ["expired", "foreign"])
def test_a_certificate_that_nginx_refuses_gets_nowhere(front: Front, name: str) -> None:
    assert through(front, getattr(pki(), name), token_request()).status == 400


def test_the_form_of_rfc_9440_from_a_trusted_address(front: Front) -> None:
    with Wire(front.served.fast_port) as wire:
        answer = wire.ask(token_request(f"Client-Cert: {pki().tpp.header}"))
        assert answer.status == 200, answer.body
        given = json.loads(answer.body)["access_token"]
        assert wire.ask(poll(given, f"Client-Cert: {pki().tpp.header}")).status == 200
        assert wire.ask(poll(given, f"Client-Cert: {pki().other_tpp.header}")).status == 401
        assert wire.ask(poll(given, "Client-Cert: nonsense")).status == 401
        assert wire.ask(poll(given)).status == 401
        assert wire.ask(poll(given, *[f"Client-Cert: {pki().tpp.header}"] * 2)).status == 401


def test_who_passes_the_proxy_by_cannot_claim_a_certificate(tmp_path: Path) -> None:
    """The attacker calls the server itself, from an address that is not the proxy's."""
    served = Served(tmp_path, trusted_proxies=Addresses().read("192.0.2.1"), public_url="https://localhost")
    try:
        served.node.database.write_now(clients.add, Registration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN))
        with served.connect() as wire:
            refused = wire.ask(token_request(f"Client-Cert: {pki().tpp.header}"))
        assert (refused.status, json.loads(refused.body)["error"]) == (400, "invalid_request")
    finally:
        served.close()


def test_who_needs_no_certificate_gets_through_without(front: Front) -> None:
    assert through(front, None, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200
