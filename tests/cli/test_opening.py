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
    """Make the database look as an older version left it; the newest migration's tables go with it."""
    newest = available()[-1].number
    with sqlite3.connect(restante.data / "restante.db") as driver:
        driver.execute("DELETE FROM schema_migrations WHERE number = ?", (newest,))
    driver.close()


def test_makes_folder_and_database_where_there_are_none(restante: Restante) -> None:
    restante.ok("user", "list")
    assert stat.S_IMODE(restante.data.stat().st_mode) == 0o700
    assert (restante.data / "restante.db").exists()


def test_the_environment_names_the_folder_too(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_DATA", str(restante.data))
    assert CliRunner().invoke(app, ["user", "list"]).exit_code == 0
    assert (restante.data / "restante.db").exists()


def test_works_beside_a_running_server_and_leaves_its_lock_alone(restante: Restante) -> None:
    folder = DataFolder(restante.data)
    with folder.lock():
        assert restante.json("user", "list") == []
        assert restante.json("apikey", "create", "x", "--role", "viewer")["id"] == 1
        before = folder.lock_path.read_text()
        assert folder.running_pid() == int(before)


def test_the_schema_is_not_changed_under_a_running_server(restante: Restante) -> None:
    restante.ok("user", "list")
    forget_newest_migration(restante)
    with DataFolder(restante.data).lock():
        assert "restart it first" in restante.complaint("user", "list")


def test_the_database_may_be_in_postgresql(restante: Restante, empty_postgres_url: str) -> None:
    at = ("--database", empty_postgres_url)
    added = restante.json("user", "add", "ada@example.com", "--role", "admin", "--password-stdin", *at, stdin="x" * 12)
    assert [user["id"] for user in restante.json("user", "list", *at)] == [added["id"]]
    assert restante.json("site", "add", "north", *at)["id"] == 1
    assert restante.json("audit", "verify", *at)["intact"]
    assert {each["state"] for each in restante.json("doctor", *at)} == {"ok"}
    assert not (restante.data / "restante.db").exists()


def test_a_database_that_other_servers_may_use_is_not_changed_under_them(
    restante: Restante, postgres: PostgresServer, empty_postgres_url: str
) -> None:
    at = ("--database", empty_postgres_url)
    restante.ok("user", "list", *at)
    name = empty_postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.run("DELETE FROM schema_migrations WHERE number = 1", name)
    assert "restart the servers" in restante.complaint("user", "list", *at)


def test_a_database_that_is_not_there_is_named_without_its_password(
    restante: Restante, postgres: PostgresServer
) -> None:
    said = restante.complaint("user", "list", "--database", f"postgresql://ada:sesame@/none?host={postgres.folder}")
    assert said.startswith("postgresql://ada:…@/none?…: cannot be reached")
    assert "sesame" not in said
