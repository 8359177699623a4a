"""The servers that are compared: each is one worker on the server's core, with what it needs on the same core.

Every server knows the same devices: their tokens, channels or ids are in the same order. A server states what survives
a power cut (`durability`), because that decides what a publish or a lease costs.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.data import device_data
from bench.peers import environments
from bench.tools.load import nginx_process
from bench.tools.processes import SERVER_CORE, free_port, pinned, serve_command
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity import api_keys
from restante.identity.callers import Role

NCHAN_MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
UPDATES = "/apiv1/devices/self/updates"
NO_LIMITS = (
    *("--poll-rate-per-second", "100000", "--poll-burst", "1000000"),
    *("--command-rate-limits", "default=1000000/60", "--log-level", "error"),
)
DURABLE = "every publish is flushed to disk before it is confirmed"
OPERATOR = "operator-token"


@dataclass(frozen=True, slots=True)
class PollServer:
    """A running server. `{}` in a path stands for the number of the device.

    `wait_path`, `publish_path`: None if the server has no long poll.
    """

    name: str
    durability: str
    port: int
    pids: Sequence[int]
    tokens: Sequence[str]
    idle_path: str
    wait_path: str | None = None
    publish_path: str | None = None
    publish_token: str = ""
    redis_port: int = 0

    def idle_targets(self) -> str:
        """A path and a token for each device, one in a line."""
        return "".join(f"{self.idle_path.format(n)} {token}\n" for n, token in enumerate(self.tokens, 1))


@contextmanager
def restante(folder: Path, devices: int) -> Iterator[PollServer]:
    data = device_data.prepare(folder / "restante", devices)
    tokens = asyncio.run(device_data.mint(data, range(1, devices + 1)))
    database = Database(SqliteEngine(data.database_path))
    _key_id, key = database.write_now(api_keys.create, "bench", Role.admin)
    database.close()
    port = free_port()
    with pinned(SERVER_CORE, serve_command(data.path, port, *NO_LIMITS), port, log=folder / "restante.log") as pid:
        yield PollServer(
            name="Restante",
            durability=DURABLE,
            port=port,
            pids=[pid],
            tokens=tokens,
            idle_path=UPDATES,
            wait_path=UPDATES + "?wait=30",
            publish_path="/apiv1/users/1/devices/{}/signals",
            publish_token=key,
        )


@contextmanager
def static_nginx(folder: Path, tokens: Sequence[str]) -> Iterator[PollServer]:
    """The upper bound: a constant response."""
    (folder / "nginx").mkdir()
    with nginx_process(folder / "nginx") as (pid, port):
        yield PollServer("nginx, a constant response", "it keeps nothing", port, [pid], tokens, UPDATES)


@contextmanager
def nchan(folder: Path, tokens: Sequence[str]) -> Iterator[PollServer]:
    home, port = folder / "nchan", free_port()
    home.mkdir()
    config = home / "nginx.conf"
    config.write_text(
        f"""
        load_module {NCHAN_MODULE};
        daemon off; master_process off; pid {home}/nginx.pid; error_log {home}/nginx.err; worker_rlimit_nofile 65536;
        events {{ worker_connections 20000; }}
        http {{
          access_log off; keepalive_requests 100000000; server_tokens off; nchan_shared_memory_size 256M;
          server {{
            listen 127.0.0.1:{port} backlog=4096 deferred;
            location ~ ^/poll/(\\w+)$ {{ nchan_subscriber intervalpoll; nchan_channel_id $1; }}
            location ~ ^/wait/(\\w+)$ {{ nchan_subscriber longpoll; nchan_channel_id $1; }}
            location ~ ^/publish/(\\w+)$ {{ nchan_publisher; nchan_channel_id $1; nchan_message_timeout 1h; }}
          }}
        }}
        """
    )
    with pinned(SERVER_CORE, ["nginx", "-p", str(home), "-c", str(config)], port) as pid:
        yield PollServer(
            name="nchan",
            durability="messages in memory, lost at a restart; no token is checked",
            port=port,
            pids=[pid],
            tokens=tokens,
            idle_path="/poll/{}",
            wait_path="/wait/{}",
            publish_path="/publish/{}",
            publish_token=OPERATOR,
        )


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[int, int]]:
    """Redis that flushes every write before it confirms it; yields process id and port."""
    home, port = folder / "redis", free_port()
    home.mkdir()
    flags = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(home)]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *flags]
    with pinned(SERVER_CORE, command, port, log=home / "log") as pid:
        yield pid, port


@contextmanager
def fastapi_redis(folder: Path, tokens: Sequence[str], owners: Sequence[str]) -> Iterator[PollServer]:
    """`owners`: the device or site of each token."""
    python = environments.python_of("fastapi-redis")
    with redis_server(folder) as (redis_pid, redis_port):
        client = redis.Redis(port=redis_port)
        fields = {f"token:{token}": owner for token, owner in zip(tokens, owners, strict=True)}
        client.mset({**fields, f"token:{OPERATOR}": "operator"})
        port = free_port()
        flags = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
        app = ["bench.peers.fastapi_redis:app", "--port", str(port), "--backlog", "4096", *flags]
        environment = {"REDIS_URL": f"redis://127.0.0.1:{redis_port}"}
        log = folder / "fastapi.log"
        with pinned(SERVER_CORE, [python, "-m", "uvicorn", *app], port, environment, log) as pid:
            yield PollServer(
                name="FastAPI + Redis",
                durability="appendfsync always: every publish is flushed to disk before it is confirmed",
                port=port,
                pids=[pid, redis_pid],
                tokens=tokens,
                idle_path=UPDATES,
                wait_path=UPDATES + "?wait=30",
                publish_path="/apiv1/users/1/devices/{}/signals",
                publish_token=OPERATOR,
                redis_port=redis_port,
            )


@contextmanager
def goosebit(folder: Path, devices: int) -> Iterator[PollServer]:
    python = environments.python_of("goosebit")
    home, port = folder / "goosebit", free_port()
    home.mkdir()
    environment = {
        "GOOSEBIT_DB_URI": f"sqlite:///{home}/db.sqlite3",
        "GOOSEBIT_ARTIFACTS_DIR": str(home),
        "GOOSEBIT_TRACK_DEVICE_IP": "false",
    }
    setup = [python, str(Path(__file__).with_name("goosebit_setup.py")), str(devices)]
    subprocess.run(setup, env={**environment, "PATH": "/usr/bin:/bin"}, check=True, capture_output=True, timeout=120)
    # With the event loop and the parser that goosebit installs.
    command = [python, "-m", "uvicorn", "goosebit:app", "--port", str(port), "--no-access-log", "--log-level", "error"]
    with pinned(SERVER_CORE, command, port, environment, home / "log") as pid:
        yield PollServer(
            name="goosebit",
            durability="SQLite; writes the time of each poll; no token is checked",
            port=port,
            pids=[pid],
            # It refuses bearer tokens.
            tokens=["-"] * devices,
            idle_path="/DEFAULT/controller/v1/device-{}",
        )


def versions() -> dict[str, str]:
    """The versions of everything that is compared."""
    from importlib.metadata import version

    fastapi, goose = environments.python_of("fastapi-redis"), environments.python_of("goosebit")
    return {
        "Python": sys.version.split()[0],
        "nginx": _first_number(["nginx", "-v"]),
        "Redis": _first_number(["redis-server", "--version"]),
        "beanstalkd": _first_number(["beanstalkd", "-v"]),
        "FastAPI": environments.version_of(fastapi, "fastapi"),
        "uvicorn": environments.version_of(fastapi, "uvicorn"),
        "goosebit": environments.version_of(goose, "goosebit"),
        **{name: version(name) for name in ("procrastinate", "pgqueuer", "psycopg")},
    }


def _first_number(command: list[str]) -> str:
    import re

    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "unknown"
