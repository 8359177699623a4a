"""Load from wrk on the other core, and nginx as the reference."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned

CONNECTIONS = 64


def requests_per_second(
    port: int,
    tokens: Path,
    seconds: int,
    path: str = "/apiv1/devices/self/updates",
    script: str = "idle_poll.lua",
    *,
    scheme: str = "http",
    new_connections: bool = False,
) -> float:
    """Requests per second; every response must be 2xx."""
    return load(port, tokens, seconds, path, script, scheme=scheme, new_connections=new_connections).per_second


class Load(NamedTuple):
    requests: int
    per_second: float


def load(
    port: int,
    tokens: Path,
    seconds: int,
    path: str = "/apiv1/devices/self/updates",
    script: str = "idle_poll.lua",
    *,
    scheme: str = "http",
    new_connections: bool = False,
    connections: int = CONNECTIONS,
    environment: Mapping[str, str] | None = None,
) -> Load:
    """Send requests for so long; every response must be 2xx or 3xx. `environment`: for scripts other than the usual."""
    done = subprocess.run(
        [
            "taskset",
            "-c",
            CLIENT_CORE,
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{seconds}s",
            "-s",
            str(Path(__file__).parent / script),
            f"{scheme}://127.0.0.1:{port}/",
        ],
        env={
            **os.environ,
            "TOKENS": str(tokens),
            "POLL_PATH": path,
            **({"CLOSING": "1"} if new_connections else {}),
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "Non-2xx" in done or "Socket errors" in done:
        raise RuntimeError(done)
    found = re.search(r"(\d+) requests in .*Requests/sec:\s+([\d.]+)", done, re.DOTALL)
    if found is None:
        raise RuntimeError(done)
    return Load(int(found[1]), float(found[2]))


@contextmanager
def nginx(folder: Path, body: str | None = None, tls: str = "") -> Iterator[int]:
    """Run one nginx worker that responds with 204 and the headers of an idle poll, or with 200 and a body; yields its
    port. `tls`: directives for TLS."""
    with nginx_process(folder, body, tls) as (_pid, port):
        yield port


@contextmanager
def nginx_process(folder: Path, body: str | None = None, tls: str = "") -> Iterator[tuple[int, int]]:
    """As `nginx`; yields process id and port."""
    response = "return 204;" if body is None else f"default_type application/json; return 200 '{body}';"
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"""
        daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.err;
        events {{ worker_connections 4096; }}
        http {{
          access_log off; keepalive_requests 100000000; server_tokens off;
          server {{
            listen 127.0.0.1:{port} backlog=4096 deferred{" ssl" if tls else ""}; {tls}
            location / {{
              add_header ETag 0-0; add_header Cache-Control no-store; add_header X-Poll-Interval 297;
              {response}
            }}
          }}
        }}
        """
    )
    with pinned(SERVER_CORE, ["nginx", "-p", str(folder), "-c", str(config)], port) as pid:
        yield pid, port
