"""Idle polls over TLS 1.3 (ECDSA P-256): in the server itself, and behind nginx as in deploy/nginx, compared with nginx
alone. New connections have a full handshake each. The CPU time is that of all processes on the server's side."""

import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.idle_poll import warm_server
from bench.load import load, nginx_process
from bench.processes import SERVER_CORE, free_port, pinned, scheduled_seconds

ROUNDS = 5
SECONDS = 4
TOKENS = 10_000
DEPLOYED = Path(__file__).parent.parent / "deploy" / "nginx" / "restante.conf"


class Target(NamedTuple):
    pids: list[int]
    port: int


class Figure(NamedTuple):
    microseconds: float
    per_second: float


def _certificate(folder: Path) -> tuple[Path, Path]:
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
        certificate, key = _certificate(folder)
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
        for new_connections in (True, False):
            for label, target, token_file in (
                ("in the server", inside, tokens),
                ("behind nginx", behind, behind_tokens),
            ):
                kind = f"{'new' if new_connections else 'open'} connections, TLS {label}"
                rounds = [
                    (_measured(alone, token_file, new_connections), _measured(target, token_file, new_connections))
                    for _ in range(ROUNDS)
                ]
                figures |= {f"{kind}: {key}": value for key, value in _figures(rounds).items()}
    return figures


def _measured(target: Target, tokens: Path, new_connections: bool) -> Figure:
    before = sum(map(scheduled_seconds, target.pids))
    sent = load(target.port, tokens, SECONDS, scheme="https", new_connections=new_connections)
    return Figure((sum(map(scheduled_seconds, target.pids)) - before) / sent.requests * 1e6, sent.per_second)


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
        ("listen 443 ssl backlog=4096;", f"listen 127.0.0.1:{port} ssl backlog=4096;"),
        ("listen [::]:443 ssl backlog=4096;", ""),
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
