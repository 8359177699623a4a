"""A private PostgreSQL server for tests, with new databases, or one database that is emptied for each test.

The server has its own folder, listens on a socket in it, and ends with this process in any case.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from restante.database.migrate import migrate
from tests.defaults import new_postgres_engine
from tests.faults.server_process import free_port
from tests.pki import CertificateFiles
from tests.services.processes import program, run, start

ACCOUNT = "postgres"
USER = "restante"
PASSWORD = "s3cret/of:post"
TIMEOUT_SECONDS = 60.0
STANDBY = "standby"
# The data need not survive a crash. No connection (autovacuum) may use the template while it is copied.
FAST_AND_UNSAFE = (
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=32MB",
)


DISCONNECT_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
# Closes connections that a test has left open. TRUNCATE costs more than DELETE for a table with few rows. Rows that
# migrations have inserted stay, and `revisions` is reset.
EMPTY_TABLES = """
DO $$
DECLARE found RECORD; is_used BOOLEAN;
BEGIN
    PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
    SET LOCAL session_replication_role = replica;
    FOR found IN SELECT oid, relname FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
          AND relname NOT IN ('schema_migrations', 'revisions')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', found.relname) INTO is_used;
        IF is_used AND pg_relation_size(found.oid) > 500000 THEN
            EXECUTE format('TRUNCATE %I CASCADE', found.relname);
        ELSIF is_used THEN
            EXECUTE format('DELETE FROM %I', found.relname);
        END IF;
    END LOOP;
    UPDATE revisions SET value = 0 WHERE value <> 0;
    PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, 1, FALSE) FROM pg_sequences
    WHERE schemaname = 'public' AND last_value IS NOT NULL;
END $$
"""


RELATION_NAMES = """
SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind <> 't'
"""


class PostgresServer:
    def __init__(
        self, *settings: str, tls: CertificateFiles | None = None, follows: "PostgresServer | None" = None
    ) -> None:
        """Create a server, or a standby that replicates the running server `follows`."""
        self.folder = Path(tempfile.mkdtemp(prefix="restante-postgres-"))
        self.folder.chmod(0o755)
        self._data = self.folder / "data"
        self._settings = settings
        self.port = 5432 if tls is None else free_port()
        if os.geteuid() == 0:
            shutil.chown(self.folder, ACCOUNT, ACCOUNT)
        self._process: subprocess.Popen[bytes] | None = None
        self._database_count = 0
        self._template: str | None = None
        self._relation_names: dict[str, Any] = {}
        if follows is not None:
            source = psycopg.conninfo.make_conninfo(follows.url("postgres"), application_name=STANDBY)
            copying = ["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"]
            self._run_program("pg_basebackup", f"--pgdata={self._data}", f"--dbname={source}", *copying)
            return
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        # Plain passwords, because every test opens connections and SCRAM is slow on purpose.
        options = ["--auth=password", f"--pwfile={password}", f"--username={USER}", "--no-sync"]
        self._run_program("initdb", f"--pgdata={self._data}", "--encoding=UTF8", "--locale=C", *options)
        if tls is not None:
            self._enable_tls(tls)

    def _enable_tls(self, tls: CertificateFiles) -> None:
        """Listen on a TCP port with TLS in addition to the socket."""
        for source, name in ((tls.certificate, "server.crt"), (tls.key, "server.key")):
            target = self._data / name
            shutil.copy(source, target)
            target.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(target, ACCOUNT, ACCOUNT)
        self._settings = (*self._settings, "listen_addresses=127.0.0.1", f"port={self.port}", "ssl=on")

    def start(self) -> None:
        options = [
            f"unix_socket_directories={self.folder}",
            "listen_addresses=",
            "max_connections=200",
            *self._settings,
        ]
        command = [program("postgres"), "-D", str(self._data)]
        for option in options:
            command += ["-c", option]
        self._process = start(ACCOUNT, self.folder, *command, death_signal=signal.SIGQUIT)
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT closes all connections first. After SIGQUIT or SIGKILL it recovers at the next start."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(TIMEOUT_SECONDS)
            self._process = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop all processes of the server: connections stay open, and nothing is answered until the block ends."""
        assert self._process is not None
        stopped: list[int] = []
        try:
            # The parent first, so that it starts no further process.
            os.kill(self._process.pid, signal.SIGSTOP)
            stopped.append(self._process.pid)
            for pid in _children(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            yield
        finally:
            for pid in reversed(stopped):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def promote(self) -> None:
        """Promote this standby; it accepts writes when this returns."""
        self.run(f"SELECT pg_promote(true, {TIMEOUT_SECONDS:.0f})")

    def wait_for_standby(self) -> None:
        """Make replication synchronous: from now on a commit waits until the standby has it on disk."""
        self.run(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self.run("SELECT pg_reload_conf()")
        end = time.monotonic() + TIMEOUT_SECONDS
        while self.run("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < end, "the standby does not replicate"
            time.sleep(0.02)

    def url(self, database: str) -> str:
        port = "" if self.port == 5432 else f"&port={self.port}"
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@/{database}?host={self.folder}{port}"

    def tls_url(self, database: str, **options: object) -> str:
        """The address with TLS and these connection options."""
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in options.items())
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}?{query}"

    def create(self, template: str = "template0") -> str:
        """Create a database; returns its address."""
        self._database_count += 1
        name = f"test_{self._database_count}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def empty(self, url: str) -> None:
        """Reset the database to its state after the migrations; much cheaper than a new one."""
        with psycopg.connect(url, autocommit=True) as conn:
            if conn.execute(RELATION_NAMES).fetchone() == self._relation_names[url]:
                conn.execute(EMPTY_TABLES)
                return
        # A test has changed tables, not only rows.
        self.clear(url)
        migrate(new_postgres_engine(url))

    def migrated(self) -> str:
        """Create a migrated database, which `empty` can reset; returns its address."""
        if self._template is None:
            self.run("CREATE DATABASE migrated TEMPLATE template0")
            migrate(new_postgres_engine(self.url("migrated")))
            self._template = "migrated"
        url = self.create(self._template)
        with psycopg.connect(url) as conn:
            self._relation_names[url] = conn.execute(RELATION_NAMES).fetchone()
        return url

    def clear(self, url: str) -> None:
        """Remove everything from the database, including its tables."""
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(DISCONNECT_OTHERS)
            conn.execute("DROP SCHEMA public CASCADE")
            conn.execute("CREATE SCHEMA public")

    def run(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
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

    def _run_program(self, name: str, *arguments: str) -> None:
        run(ACCOUNT, self.folder, program(name), *arguments)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def postgres_server(*settings: str, tls: CertificateFiles | None = None) -> Iterator[PostgresServer]:
    server = PostgresServer(*(settings or FAST_AND_UNSAFE), tls=tls)
    try:
        server.start()
        yield server
    finally:
        server.remove()
