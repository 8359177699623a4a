import json
import threading
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante.cli.main import app
from restante.database import copying
from restante.database.copying import Standing
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.postgres import PostgresEngine
from restante.identity import users
from restante.server.app import opened
from restante.server.data_folder import DataFolder
from restante.server.setting_kinds import DatabaseAddress
from restante.server.settings import Settings
from tests.cli.conftest import OWNER, Restante


def copied(source: Path, target: str, *flags: str) -> Result:
    return CliRunner().invoke(app, ["copy", "--from", str(source), "--to", target, *flags])


@pytest.fixture
def filled(restante: Restante) -> Restante:
    restante.ok("user", "add", OWNER, "--role", "admin", "--password-stdin", stdin="correct horse battery\n")
    restante.ok("keys", "rotate")
    return restante


def test_an_embedded_database_is_moved_to_postgresql(filled: Restante, empty_postgres_url: str) -> None:
    result = copied(filled.data, empty_postgres_url)
    assert result.exit_code == 0, result.output
    assert "Copied and compared" in result.stdout
    assert str(DataFolder(filled.data).master_key_path) in result.stdout
    with closing(Database(PostgresEngine(empty_postgres_url))) as database:
        assert [user.email for user in database.read_now(users.list_all)] == [OWNER]
    here = Settings(data=filled.data, database=DatabaseAddress(empty_postgres_url))
    with opened(here) as node:
        assert node.master_key is not None


def test_the_json_says_how_much(filled: Restante, empty_postgres_url: str) -> None:
    result = copied(filled.data, empty_postgres_url, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["tables"] > 10
    assert said["rows"] >= 2


def test_a_second_copy_is_refused_and_changes_nothing(filled: Restante, empty_postgres_url: str) -> None:
    assert copied(filled.data, empty_postgres_url).exit_code == 0
    result = copied(filled.data, empty_postgres_url)
    assert result.exit_code == 1
    assert "not empty" in result.stderr


def test_a_folder_without_a_database_is_refused(tmp_path: Path, empty_postgres_url: str) -> None:
    result = copied(tmp_path / "nothing", empty_postgres_url)
    assert result.exit_code == 1
    assert "--from" in result.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_folder_with_a_running_server_is_refused(filled: Restante, empty_postgres_url: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with DataFolder(filled.data).lock():
            begun.set()
            go_on.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(60)
    try:
        result = copied(filled.data, empty_postgres_url)
    finally:
        go_on.set()
        holder.join()
    assert result.exit_code == 1
    assert "already runs" in result.stderr


def test_no_server_starts_on_an_unfinished_copy(
    filled: Restante, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_standing: Standing) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("restante.cli.copying._Bar.tell", lambda _bar, standing: cut_off(standing))
        assert copied(filled.data, empty_postgres_url).exit_code != 0
    with (
        pytest.raises(DatabaseError, match="has not finished"),
        opened(Settings(data=filled.data, database=DatabaseAddress(empty_postgres_url))),
    ):
        pass
    assert copied(filled.data, empty_postgres_url).exit_code == 0
    with closing(Database(PostgresEngine(empty_postgres_url))) as database:
        database.read_now(copying.refuse_unfinished)
