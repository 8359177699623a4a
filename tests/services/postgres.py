"""A private PostgreSQL server for tests, and databases on it: new ones, and one that is emptied for each test.

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
from urllib.parse import quote

import psycopg

from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from tests.faults.server_process import free_port
from tests.pki import Pair

USER = "restante"
PASSWORD = "s3cret/of:post"
PATIENCE_SECONDS = 60.0
STANDBY = "standby"
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


DISCONNECT_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
# Whoever a test has left behind is sent away. Emptying files costs more than deleting a few rows does, unless there
# are many. What migrations have put into tables of their own is left, and `revisions` begins anew.
EMPTY = """
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


SHAPE = """
SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind <> 't'
"""


class PostgresServer:
    def __init__(self, *settings: str, tls: Pair | None = None, follows: "PostgresServer | None" = None) -> None:
        """A new server; or one that stands by for another, which runs, and writes what that one writes."""
        self.folder = Path(tempfile.mkdtemp(prefix="restante-postgres-"))
        self.folder.chmod(0o755)
        self._data = self.folder / "data"
        self._settings = settings
        self.port = 5432 if tls is None else free_port()
        self._owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            # It refuses to run as root.
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self._template: str | None = None
        self._shapes: dict[str, Any] = {}
        if follows is not None:
            source = psycopg.conninfo.make_conninfo(follows.url("postgres"), application_name=STANDBY)
            copying = ["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"]
            self._call("pg_basebackup", f"--pgdata={self._data}", f"--dbname={source}", *copying)
            return
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        # Checked as it is, without the work that makes guessing slow: connections are made for every test.
        options = ["--auth=password", f"--pwfile={password}", f"--username={USER}", "--no-sync"]
        self._call("initdb", f"--pgdata={self._data}", "--encoding=UTF8", "--locale=C", *options)
        if tls is not None:
            self._listen_with(tls)

    def _listen_with(self, tls: Pair) -> None:
        """Be reached by TLS, too, not only by the socket."""
        for source, name in zip(tls, ("server.crt", "server.key"), strict=True):
            target = self._data / name
            shutil.copy(source, target)
            target.chmod(0o600)
            if self._owner:
                os.chown(target, self._owner["user"], self._owner["group"])
        self._settings = (*self._settings, "listen_addresses=127.0.0.1", f"port={self.port}", "ssl=on")

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

    def promote(self) -> None:
        """Have the one that stands by take over: it is a server like any other when this returns."""
        self.run(f"SELECT pg_promote(true, {PATIENCE_SECONDS:.0f})")

    def wait_for_standby(self) -> None:
        """From now on a commit is one only when the server that stands by has it on its disk, too."""
        self.run(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self.run("SELECT pg_reload_conf()")
        end = time.monotonic() + PATIENCE_SECONDS
        while self.run("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < end, "the server that stands by does not follow"
            time.sleep(0.02)

    def url(self, database: str) -> str:
        port = "" if self.port == 5432 else f"&port={self.port}"
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@/{database}?host={self.folder}{port}"

    def tls_url(self, database: str, **options: object) -> str:
        """The address by TLS, with these options."""
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in options.items())
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}?{query}"

    def create(self, template: str = "template0") -> str:
        """A new database; its address."""
        self._made += 1
        name = f"made_{self._made}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def empty(self, url: str) -> None:
        """Make the database as it was when it was migrated; much cheaper than another one."""
        with psycopg.connect(url, autocommit=True) as conn:
            if conn.execute(SHAPE).fetchone() == self._shapes[url]:
                conn.execute(EMPTY)
                return
        # A test has changed more than rows.
        self.clear(url)
        migrate(PostgresEngine(url))

    def migrated(self) -> str:
        """A new database with everything in it that a new one has, to be emptied; its address."""
        if self._template is None:
            self.run("CREATE DATABASE migrated TEMPLATE template0")
            migrate(PostgresEngine(self.url("migrated")))
            self._template = "migrated"
        url = self.create(self._template)
        with psycopg.connect(url) as conn:
            self._shapes[url] = conn.execute(SHAPE).fetchone()
        return url

    def clear(self, url: str) -> None:
        """Take everything out of the database, its tables included."""
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(DISCONNECT_OTHERS)
            conn.execute("DROP SCHEMA public CASCADE")
            conn.execute("CREATE SCHEMA public")

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
def postgres_server(*settings: str, tls: Pair | None = None) -> Iterator[PostgresServer]:
    server = PostgresServer(*(settings or UNSAFE_BUT_QUICK), tls=tls)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def program(name: str) -> Path:
    """A program of the newest PostgreSQL that is installed: its folder is on nobody's path."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folders = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    return max(folders, key=lambda path: int(path.parts[4]))


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
