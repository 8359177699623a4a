"""A PostgreSQL server of the tests' own: nothing it holds outlives it, so nothing is flushed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.server_process import free_port
from tests.services.processes import end, folder_of, program, run, start, wait_until

ACCOUNT = "postgres"
PASSWORD = "s3cret/of:post"
QUOTED_PASSWORD = "s3cret%2Fof%3Apost"


class Postgres:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        run(
            ACCOUNT,
            folder,
            program("initdb"),
            "--no-sync",
            "--username=restante",
            f"--pwfile={folder / 'password'}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            f"--pgdata={folder / 'data'}",
        )

    def start(self) -> None:
        flags = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "max_connections": 200,
            "shared_buffers": "32MB",
        }
        settings = [part for name, value in flags.items() for part in ("-c", f"{name}={value}")]
        self._process = start(ACCOUNT, self.folder, program("postgres"), "-D", str(self.folder / "data"), *settings)
        wait_until(self._is_ready, self._process, self.folder)

    def stop(self) -> None:
        assert self._process is not None
        end(self._process)

    def url(self, database: str) -> str:
        return f"postgresql://restante:{QUOTED_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres", **options: Any) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.url(database), **options)

    def create_database(self, name: str) -> str:
        """Make an empty database; the URL of it."""
        with self.connect(autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def _is_ready(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    with folder_of(ACCOUNT) as folder:
        service = Postgres(folder)
        service.start()
        try:
            yield service
        finally:
            service.stop()
