"""A private PostgreSQL server for tests, and fresh databases on it, each made from a migrated template.

The server lies in a folder of its own, is reached by a socket in it, and ends with this process, however that ends.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine

USER = "restante"
PASSWORD = "spoken softly"
PATIENCE_SECONDS = 60.0
PR_SET_PDEATHSIG = 1
# Nothing here has to survive anything; and nobody may be connected to the template while it is copied.
UNSAFE_BUT_QUICK = (
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=32MB",
)


class PostgresServer:
    def __init__(self, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="restante-postgres-"))
        self.folder.chmod(0o755)
        self._data = self.folder / "data"
        self._settings = settings
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            # It refuses to run as root.
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        options = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--username={USER}", "--no-sync"]
        self._call("initdb", f"--pgdata={self._data}", "--encoding=UTF8", "--locale=C", *options)

    def start(self) -> None:
        options = [
            f"unix_socket_directories={self.folder}",
            "listen_addresses=",
            "max_connections=200",
            *self._settings,
        ]
        command = [str(program("postgres")), "-D", str(self._data)]
        for option in options:
            command += ["-c", option]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                **self._owner,
            )
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: everybody is told to go. SIGQUIT: it is gone at once, and recovers at the next start."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def create(self, template: str = "template0") -> str:
        """A new database, a copy of the template; its address."""
        self._made += 1
        name = f"made_{self._made}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def run(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > end:
                    raise AssertionError((self.folder / "log").read_text()) from error
                time.sleep(0.01)
            else:
                return

    def _call(self, name: str, *arguments: str) -> None:
        done = subprocess.run([program(name), *arguments], cwd=self.folder, capture_output=True, **self._owner)
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def postgres_server(*settings: str) -> Iterator[PostgresServer]:
    server = PostgresServer(*(settings or UNSAFE_BUT_QUICK))
    try:
        server.start()
        yield server
    finally:
        server.remove()


def migrated_template(server: PostgresServer) -> str:
    """The name of a database to copy, with everything in it that a new one has."""
    server.run("CREATE DATABASE migrated")
    migrate(PostgresEngine(server.url("migrated")))
    return "migrated"


def program(name: str) -> Path:
    """A program of the newest PostgreSQL that is installed: its folder is on nobody's path."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folders = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return max(folders, key=lambda path: int(path.parts[4]))


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
