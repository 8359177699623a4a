"""A private MariaDB server for tests. Its data is temporary, so it does not wait for the disk."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql

from tests.faults.server_process import free_port
from tests.services.processes import end, program, run, service_folder, start, wait_until

ACCOUNT = "mysql"
PASSWORD = "s3cret/of:maria"
QUOTED_PASSWORD = "s3cret%2Fof%3Amaria"


class MariaDb:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        run(
            ACCOUNT,
            folder,
            program("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            # Its own folder, because other servers may be set up at the same time.
            f"--tmpdir={folder}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )

    def start(self) -> None:
        self._process = start(
            ACCOUNT,
            self.folder,
            program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder}",
            f"--socket={self.folder / 'socket'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-name-resolve",
            "--max-connections=200",
        )
        wait_until(self._is_ready, self._process, self.folder)

    def stop(self) -> None:
        assert self._process is not None
        end(self._process)

    def connect(self, database: str | None = None) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(unix_socket=str(self.folder / "socket"), user="root", database=database)

    def create_database(self, name: str) -> str:
        """Create an empty database; returns its URL with a user whose password must be quoted."""
        with self.connect() as conn, conn.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
            cursor.execute(f"GRANT ALL ON {name}.* TO restante@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        return f"mysql://restante:{QUOTED_PASSWORD}@127.0.0.1:{self.port}/{name}"

    def _is_ready(self) -> bool:
        # The driver would leave a socket open when the connection is refused.
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.folder / "socket")) == 0


@contextmanager
def running_mariadb() -> Iterator[MariaDb]:
    with service_folder(ACCOUNT) as folder:
        service = MariaDb(folder)
        service.start()
        try:
            yield service
        finally:
            service.stop()
