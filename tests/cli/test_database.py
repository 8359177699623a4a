import sqlite3
import stat

import pytest
from typer.testing import CliRunner

from restante.cli.main import app
from restante.database.migrate import available
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante
from tests.services.postgres import PostgresServer


def forget_newest_migration(restante: Restante) -> None:
    """Make the database look like one of an older version."""
    newest = available()[-1].number
    with sqlite3.connect(restante.data / "restante.db") as driver:
        driver.execute("DELETE FROM schema_migrations WHERE number = ?", (newest,))
    driver.close()


def test_missing_folder_and_database_are_created(restante: Restante) -> None:
    restante.ok("user", "list")
    assert stat.S_IMODE(restante.data.stat().st_mode) == 0o700
    assert (restante.data / "restante.db").exists()


def test_environment_names_the_folder(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_DATA", str(restante.data))
    assert CliRunner().invoke(app, ["user", "list"]).exit_code == 0
    assert (restante.data / "restante.db").exists()


def test_command_runs_beside_server_and_keeps_its_lock(restante: Restante) -> None:
    folder = DataFolder(restante.data)
    with folder.lock():
        assert restante.json("user", "list") == []
        assert restante.json("apikey", "create", "x", "--role", "viewer")["id"] == 1
        before = folder.lock_path.read_text()
        assert folder.running_pid() == int(before)


def test_older_schema_under_running_server_is_refused(restante: Restante) -> None:
    restante.ok("user", "list")
    forget_newest_migration(restante)
    with DataFolder(restante.data).lock():
        assert "restart it first" in restante.error_line("user", "list")


def test_commands_work_on_postgresql(restante: Restante, empty_postgres_url: str) -> None:
    at = ("--database", empty_postgres_url)
    added = restante.json("user", "add", "ada@example.com", "--role", "admin", "--password-stdin", *at, stdin="x" * 12)
    assert [user["id"] for user in restante.json("user", "list", *at)] == [added["id"]]
    assert restante.json("site", "add", "north", *at)["id"] == 1
    assert restante.json("audit", "verify", *at)["intact"]
    assert {each["state"] for each in restante.json("doctor", *at)} == {"ok"}
    assert not (restante.data / "restante.db").exists()


def test_older_shared_schema_is_refused(restante: Restante, postgres: PostgresServer, empty_postgres_url: str) -> None:
    at = ("--database", empty_postgres_url)
    restante.ok("user", "list", *at)
    name = empty_postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.run("DELETE FROM schema_migrations WHERE number = 1", name)
    assert "restart the servers" in restante.error_line("user", "list", *at)


def test_unreachable_database_is_named_without_password(restante: Restante, postgres: PostgresServer) -> None:
    message = restante.error_line("user", "list", "--database", f"postgresql://ada:sesame@/none?host={postgres.folder}")
    assert message.startswith("postgresql://ada:…@/none?…: cannot be reached")
    assert "sesame" not in message
