"""A real server for the tests of programs that use this package. Needs the `restante` distribution.

    with LocalServer() as server, BlockingOperatorClient(server.url, server.admin_key) as operator:
        site = operator.sites.create(name="north")

The server runs as its own process, on SQLite in a temporary folder, on a free port of the loopback interface.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from restante_client.errors import RestanteError

START_SECONDS = 60.0
# Below the range of ports that the kernel gives to clients: a client that calls a killed server again and again could
# otherwise get the server's port for itself.
_PORTS = range(20_000, 32_000)
USER_EMAIL = "owner@example.com"
USER_PASSWORD = "correct horse battery"  # noqa: S105


class LocalServer:
    def __init__(self, *flags: str, program: str | None = None) -> None:
        beside = Path(sys.executable).with_name("restante")
        found = program or (str(beside) if beside.exists() else shutil.which("restante"))
        if found is None:
            raise RestanteError("the program `restante` is not installed")
        self._program = found
        self._flags = flags
        self._folder = tempfile.TemporaryDirectory(prefix="restante-")
        self.data = Path(self._folder.name) / "data"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        first = ("--user", USER_EMAIL, "--role", "operator", "--password-stdin", "--key", "tests")
        made = self.command("init", *first, stdin=USER_PASSWORD)
        self.user_id = int(made["user"]["id"])
        self.admin_key = str(made["key"]["token"])

    def __enter__(self) -> LocalServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def command(self, *args: str, stdin: str = "") -> Any:
        """Run a command of the program on the data folder, and return its JSON output."""
        done = subprocess.run(  # noqa: S603
            [self._program, *args, "--data", str(self.data), "--json"],
            input=stdin,
            capture_output=True,
            text=True,
            env=_environment(),
            check=False,
        )
        if done.returncode != 0:
            raise RestanteError(f"restante {' '.join(args[:2])} failed: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [self._program, "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *self._flags],
                stdout=log,
                stderr=log,
                env=_environment(),
            )
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RestanteError(f"the server does not start: {self.log_path.read_text()[-2000:]}")
            time.sleep(0.02)

    @property
    def log_path(self) -> Path:
        """The log of the server, until `close`."""
        return Path(self._folder.name) / "server.log"

    def kill(self) -> None:
        """End the server at once, as a crash would. `start` starts it again on the same data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        self._folder.cleanup()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as response:  # noqa: S310
                return bool(response.status == 200)
        except OSError:
            return False


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}


def _free_port() -> int:
    while True:
        port = random.choice(_PORTS)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
