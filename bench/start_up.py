"""How long the program takes to start: a server until its first answer, embedded and on PostgreSQL, and commands.

In CPU seconds of the process, against a bare `import uvicorn, starlette` in the same round: what a machine is busy with
otherwise lengthens both.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.processes import free_port
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
            "restante device list": (PROGRAM, "device", "list", "--data", str(data / "embedded")),
        }
        seconds: dict[str, list[float]] = {}
        for number in range(ROUNDS + 1):
            taken = {"reference": _of_command(*REFERENCE)}
            taken |= {name: _of_server(server) for name, server in servers.items()}
            taken |= {name: _of_command(*command) for name, command in commands.items()}
            if number:  # the first compiles what was not compiled yet, and makes the databases
                for name, each in taken.items():
                    seconds.setdefault(name, []).append(each)
    middle = {name: statistics.median(each) for name, each in seconds.items()}
    reference = middle.pop("reference")
    figures = {"import uvicorn, starlette: CPU seconds": reference}
    for name, each in middle.items():
        figures |= {f"{name}: CPU seconds": each, f"{name}: × that": each / reference}
    return figures


def _of_server(server: ServerProcess) -> float:
    """Until it has said that it is ready."""
    server.port = free_port()
    server.start()
    try:
        server.wait_until_ready()
        fields = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    finally:
        server.end()


def _of_command(*command: str) -> float:
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment(), check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
