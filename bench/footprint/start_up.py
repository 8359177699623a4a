"""How long the program takes to start: a server until it is ready, embedded and on PostgreSQL, and CLI commands.

The unit is CPU seconds of the process, compared with a bare `import uvicorn, starlette` in the same round: the load of
the machine affects both.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.tools.processes import cpu_seconds, free_port
from tests.faults.server_process import PROGRAM, ServerProcess, environment
from tests.services.postgres import postgres_server

ROUNDS = 7
REFERENCE = (sys.executable, "-c", "import uvicorn, starlette.applications")


def start_up() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, postgres_server("shared_buffers=32MB") as postgres:
        data = Path(folder)
        servers = {
            "embedded server": ServerProcess(data / "embedded", "--log-level", "warning"),
            "server on PostgreSQL": ServerProcess(
                data / "shared", "--log-level", "warning", "--database", postgres.create()
            ),
        }
        commands = {
            "restante --help": (PROGRAM, "--help"),
            "restante keys list": (PROGRAM, "keys", "list", "--data", str(data / "embedded")),
        }
        seconds: dict[str, list[float]] = {}
        for number in range(ROUNDS + 1):
            used = {"reference": _command_cpu_seconds(*REFERENCE)}
            used |= {name: _server_cpu_seconds(server) for name, server in servers.items()}
            used |= {name: _command_cpu_seconds(*command) for name, command in commands.items()}
            if number:  # the first round compiles modules and creates the databases
                for name, each in used.items():
                    seconds.setdefault(name, []).append(each)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    reference = medians.pop("reference")
    figures = {"import uvicorn, starlette: CPU seconds": reference}
    for name, each in medians.items():
        figures |= {f"{name}: CPU seconds": each, f"{name}: × that": each / reference}
    return figures


def _server_cpu_seconds(server: ServerProcess) -> float:
    """The CPU time until the server is ready."""
    server.port = free_port()
    server.start()
    try:
        server.wait_until_ready()
        return cpu_seconds([server.pid])
    finally:
        server.end()


def _command_cpu_seconds(*command: str) -> float:
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment(), check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
