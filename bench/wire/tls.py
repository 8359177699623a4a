"""Idle polls over TLS 1.3 (ECDSA P-256): in the server itself, and behind nginx as in deploy/nginx, compared with nginx
alone. New connections have a full handshake each, or resume the session before. The CPU time is that of all processes
on the server's side."""

import os
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from bench.polls.idle_poll import warm_server
from bench.tools.load import Load, load, nginx_process
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, scheduled_seconds

ROUNDS = 5
SECONDS = 4
TOKENS = 10_000
RESUMED = 4_000
RESUMING_CLIENTS = 32
DEPLOYED = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "restante.conf"


_REQUEST = (
    b"GET /apiv1/devices/self/updates HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\n"
    b'If-None-Match: "0-0"\r\nUser-Agent: bench\r\nAccept: */*\r\nConnection: close\r\n\r\n'
)


class Kind(Enum):
    full = "new connections"
    resumed = "resumed connections"
    open = "open connections"


class Target(NamedTuple):
    pids: list[int]
    port: int


class Figure(NamedTuple):
    microseconds: float
    per_second: float


def certificate_files(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def against_nginx() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        certificate, key = certificate_files(folder)
        tls = f"ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;"
        folders = {kind: folder / kind for kind in ("alone", "inside", "behind")}
        for each in folders.values():
            each.mkdir()
        alone = Target([*(pair := opened.enter_context(nginx_process(folders["alone"], tls=tls)))][:1], pair[1])
        pid, port, tokens = opened.enter_context(warm_server(folders["inside"], TOKENS, TOKENS, certificate, key))
        inside = Target([pid], port)
        pid, port, behind_tokens = opened.enter_context(warm_server(folders["behind"], TOKENS, TOKENS))
        proxy, front = opened.enter_context(terminator(folders["behind"], port, certificate, key))
        behind = Target([pid, proxy], front)
        for kind in Kind:
            for label, target, token_file in (
                ("in the server", inside, tokens),
                ("behind nginx", behind, behind_tokens),
            ):
                rounds = [
                    (_measured(alone, token_file, kind), _measured(target, token_file, kind)) for _ in range(ROUNDS)
                ]
                found = _figures(rounds).items()
                figures |= {f"{kind.value}, TLS {label}: {name}": value for name, value in found}
    return figures


def _measured(target: Target, tokens: Path, kind: Kind) -> Figure:
    before = sum(map(scheduled_seconds, target.pids))
    if kind is Kind.resumed:
        sent = _resume(target.port, tokens.read_text().split()[:RESUMED])
    else:
        sent = load(target.port, tokens, SECONDS, scheme="https", new_connections=kind is Kind.full)
    return Figure((sum(map(scheduled_seconds, target.pids)) - before) / sent.requests * 1e6, sent.per_second)


def _resume(port: int, tokens: list[str]) -> Load:
    """A poll on a new connection for each token, by some clients at a time."""
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    started = time.perf_counter()
    try:
        with ThreadPoolExecutor(RESUMING_CLIENTS) as clients:
            for _ in clients.map(lambda n: _resume_each(port, tokens[n::RESUMING_CLIENTS]), range(RESUMING_CLIENTS)):
                pass
    finally:
        os.sched_setaffinity(0, {0, 1})
    return Load(len(tokens), len(tokens) / (time.perf_counter() - started))


def _resume_each(port: int, tokens: list[str]) -> None:
    """Each connection resumes the session of the one before."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session = None
    for number, token in enumerate(tokens):
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            context.wrap_socket(raw, server_hostname="localhost", session=session) as wire,
        ):
            wire.sendall(_REQUEST % token.encode())
            if not wire.recv(4096).startswith(b"HTTP/1.1 204") or wire.session_reused is not (number > 0):
                raise RuntimeError(f"connection {number}: resumed is {wire.session_reused}")
            session = wire.session


def _figures(rounds: list[tuple[Figure, Figure]]) -> dict[str, float]:
    return {
        "nginx requests/s": statistics.median(theirs.per_second for theirs, _ in rounds),
        "requests/s": statistics.median(ours.per_second for _, ours in rounds),
        "ratio of rates": statistics.median(ours.per_second / theirs.per_second for theirs, ours in rounds),
        "nginx µs of CPU": statistics.median(theirs.microseconds for theirs, _ in rounds),
        "µs of CPU": statistics.median(ours.microseconds for _, ours in rounds),
        "nginx CPU / CPU": statistics.median(theirs.microseconds / ours.microseconds for theirs, ours in rounds),
    }


@contextmanager
def terminator(folder: Path, upstream: int, certificate: Path, key: Path) -> Iterator[tuple[int, int]]:
    """One nginx worker with the deployed configuration, for other files and ports; yields process id and port."""
    port = free_port()
    tickets = folder / "tickets.key"
    tickets.write_bytes(bytes(80))
    site = DEPLOYED.read_text()
    for old, new in (
        ("server 127.0.0.1:8080;", f"server 127.0.0.1:{upstream};"),
        ("listen 443 ssl backlog=4096 deferred;", f"listen 127.0.0.1:{port} ssl backlog=4096 deferred;"),
        ("listen [::]:443 ssl backlog=4096 deferred;", ""),
        ("/etc/restante/tls/certificate.pem", str(certificate)),
        ("/etc/restante/tls/key.pem", str(key)),
        ("/etc/restante/tls/tickets.key", str(tickets)),
        ("/etc/restante/tls/tickets.old.key", str(tickets)),
    ):
        if old not in site:
            raise ValueError(f"{DEPLOYED} has no {old!r}")
        site = site.replace(old, new)
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.err;"
        f" events {{ worker_connections 4096; }} http {{ access_log off; {site} }}"
    )
    with pinned(SERVER_CORE, ["nginx", "-p", str(folder), "-c", str(config)], port) as pid:
        yield pid, port
