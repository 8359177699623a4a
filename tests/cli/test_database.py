"""Commands that work on the data folder: none but `init` creates one, and a wrong folder is refused."""

import sqlite3
import stat

import pytest
from typer.testing import CliRunner

from restante.cli.main import app
from restante.database.migrate import available
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante
from tests.services.postgres import PostgresServer

PASSWORD = "correct horse battery"


def forget_newest_migration(restante: Restante) -> None:
    """Make the database look like one of an older version."""
    newest = available()[-1].number
    with sqlite3.connect(restante.data / "restante.db") as driver:
        driver.execute("DELETE FROM schema_migrations WHERE number = ?", (newest,))
    driver.close()


@pytest.mark.parametrize("command", [("keys", "list"), ("keys", "rotate"), ("migrate", "apply")])
def test_wrong_folder_is_refused_and_nothing_created(restante: Restante, command: tuple[str, ...]) -> None:
    assert f"there is no data folder {restante.data}" in restante.error_line(*command)
    assert not restante.data.exists()
    restante.data.mkdir()
    assert f"there is no database in {restante.data}" in restante.error_line(*command)
    assert list(restante.data.iterdir()) == []


def test_init_creates_folder_database_and_key(restante: Restante) -> None:
    assert restante.json("init") == {"data": str(restante.data)}
    assert stat.S_IMODE(restante.data.stat().st_mode) == 0o700
    assert {path.name for path in restante.data.iterdir()} >= {"restante.db", "master.key"}
    assert len(restante.items("keys", "list")) <= 1


def test_init_adds_the_first_user_and_key_once(restante: Restante) -> None:
    first = ("init", "--user", "Ada@example.com", "--key", "tests", "--password-stdin")
    made = restante.json(*first, stdin=PASSWORD)
    assert (made["user"]["id"], made["user"]["email"], made["user"]["role"]) == (1, "ada@example.com", "admin")
    assert made["key"]["token"].startswith("rk_")
    assert "there are users or keys already" in restante.error_line(*first, stdin=PASSWORD)
    assert restante.json("init") == {"data": str(restante.data)}


def test_key_without_database_and_database_without_key_are_refused(restante: Restante) -> None:
    restante.ok("init")
    folder = DataFolder(restante.data)
    folder.master_key_path.rename(restante.data.parent / "master.key")
    assert str(folder.master_key_path) in restante.error_line("keys", "rotate")
    (restante.data.parent / "master.key").rename(folder.master_key_path)
    folder.database_path.unlink()
    for command in (("keys", "list"), ("init",), ("migrate", "apply")):
        assert "put restante.db back" in restante.error_line(*command)


def test_environment_names_the_folder(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_DATA", str(restante.data))
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    assert (restante.data / "restante.db").exists()


def test_command_runs_beside_server_and_keeps_its_lock(restante: Restante) -> None:
    restante.ok("init")
    folder = DataFolder(restante.data)
    with folder.lock():
        restante.ok("keys", "list")
        before = folder.lock_path.read_text()
        assert folder.running_pid() == int(before)
        assert "a server already runs" in restante.error_line("init")


def test_older_schema_under_running_server_is_refused(restante: Restante) -> None:
    restante.ok("init")
    forget_newest_migration(restante)
    with DataFolder(restante.data).lock():
        assert "restart it first" in restante.error_line("keys", "list")


def test_commands_work_on_postgresql(restante: Restante, empty_postgres_url: str) -> None:
    at = ("--database", empty_postgres_url)
    assert "restante init" in restante.error_line("keys", "list", *at)
    assert restante.json("init", "--user", "a@example.com", "--password-stdin", *at, stdin=PASSWORD)["user"]["id"] == 1
    assert restante.json("keys", "rotate", *at)["kid"]
    assert {each["state"] for each in restante.items("doctor", *at)} == {"ok"}
    assert not (restante.data / "restante.db").exists()


def test_older_shared_schema_is_refused(restante: Restante, postgres: PostgresServer, empty_postgres_url: str) -> None:
    at = ("--database", empty_postgres_url)
    restante.ok("init", *at)
    name = empty_postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.run("DELETE FROM schema_migrations WHERE number = 1", name)
    assert "restart the servers" in restante.error_line("keys", "list", *at)


def test_unreachable_database_is_named_without_password(restante: Restante, postgres: PostgresServer) -> None:
    message = restante.error_line("keys", "list", "--database", f"postgresql://ada:sesame@/none?host={postgres.folder}")
    assert message.startswith("postgresql://ada:…@/none?…: cannot be reached")
    assert "sesame" not in message
