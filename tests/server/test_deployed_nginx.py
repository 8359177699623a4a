"""The configuration of nginx in deploy/, with other files and ports, in front of a real server."""

import secrets
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import quote

import pytest

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from restante.server.config.setting_types import NetworkList
from tests.pki import TPP_DN, pki
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import TIMEOUT_SECONDS
from tests.server.test_behind_nginx import NGINX, free_port, is_listening, token_request

DEPLOYED = Path(__file__).parents[2] / "deploy" / "nginx" / "restante.conf"

pytestmark = pytest.mark.skipif(not Path(NGINX).exists(), reason="nginx is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    trusted = NetworkList().parse("127.0.0.1")
    server = DeviceServer(tmp_path_factory.mktemp("server"), trusted_proxies=trusted, public_url="https://localhost")
    registration = ClientRegistration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN)
    server.node.database.write_now(clients.add, registration)
    yield server
    server.live_server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("tickets.key", "tickets.old.key"):
        (tmp_path / name).write_bytes(secrets.token_bytes(80))
    return tmp_path


@contextmanager
def nginx(folder: Path, upstream_port: int) -> Iterator[int]:
    """Run nginx with the deployed configuration; yields its port."""
    for _ in range(5):
        port = free_port()
        process = start(folder, port, upstream_port)
        if is_listening(process, port):
            break
        process.wait(TIMEOUT_SECONDS)
    else:
        raise AssertionError((folder / "error.log").read_text())
    try:
        yield port
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def start(folder: Path, port: int, upstream_port: int) -> "subprocess.Popen[bytes]":
    site = DEPLOYED.read_text(encoding="utf-8")
    for old, new in (
        ("127.0.0.1:8080;", f"127.0.0.1:{upstream_port};"),
        ("listen 443 ssl backlog=4096 deferred;", f"listen 127.0.0.1:{port} ssl;"),
        ("listen [::]:443 ssl backlog=4096 deferred;", ""),
        ("/etc/restante/tls/certificate.pem", str(pki().server.certificate)),
        ("/etc/restante/tls/key.pem", str(pki().server.key)),
        ("/etc/restante/tls/", f"{folder}/"),
    ):
        assert old in site
        site = site.replace(old, new)
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;"
        " events { worker_connections 64; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; {temporary}\n{site}\n}}",
        encoding="utf-8",
    )
    command = [NGINX, "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", str(folder / "error.log")]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def request(
    port: int, data: bytes, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[int, ssl.SSLSession | None, bool | None]:
    """The status of the response, the session of the connection, and whether it was resumed."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
    with context.wrap_socket(raw, server_hostname="localhost", session=session) as wire:
        wire.sendall(data)
        response = HTTPResponse(wire)
        response.begin()
        response.read()
        return response.status, wire.session, wire.session_reused


def client_context(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki().authority.certificate)
    context.minimum_version = context.maximum_version = version
    return context


def test_polls_stay_in_the_fast_lane(server: DeviceServer, folder: Path) -> None:
    with nginx(folder, server.live_server.fast_port) as port:
        before = server.fast_requests
        for line in (b"Connection: close", b"Connection: keep-alive", b"User-Agent: device"):
            poll = server.device.poll(b"", b"If-None-Match: " + server.cursor(server.device), line)
            assert request(port, poll, client_context())[0] == 204
    assert server.fast_requests == before + 3


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed_after_restart_until_both_keys_are_replaced(
    server: DeviceServer, folder: Path, version: ssl.TLSVersion
) -> None:
    context, poll = client_context(version), server.device.poll()
    with nginx(folder, server.live_server.fast_port) as port:
        _, session, _ = request(port, poll, context)
    with nginx(folder, server.live_server.fast_port) as port:
        assert request(port, poll, context, session)[2] is True
    (folder / "tickets.key").rename(folder / "tickets.old.key")
    (folder / "tickets.key").write_bytes(secrets.token_bytes(80))
    with nginx(folder, server.live_server.fast_port) as port:
        assert request(port, poll, context, session)[2] is True
    (folder / "tickets.old.key").write_bytes(secrets.token_bytes(80))
    with nginx(folder, server.live_server.fast_port) as port:
        assert request(port, poll, context, session)[2] is False


def test_certificate_in_a_header_of_the_caller_is_not_passed_on(server: DeviceServer, folder: Path) -> None:
    forged = token_request(f"Client-Cert: {quote(pki().tpp.certificate.read_text())}")
    with server.live_server.connect() as trusted:
        assert trusted.request(forged).status == 200  # the control: the server believes its proxy
    with nginx(folder, server.live_server.fast_port) as port:
        assert request(port, forged, client_context())[0] == 401


def test_metrics_are_not_public(server: DeviceServer, folder: Path) -> None:
    with nginx(folder, server.live_server.fast_port) as port:
        assert request(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", client_context())[0] == 403
