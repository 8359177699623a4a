import json
import threading
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from restante.cli.main import app
from restante.database import copy_tables
from restante.database.copy_tables import CopyProgress
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.identity.people import users
from restante.server.app import opened
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from restante.server.data_folder import DataFolder
from tests.cli.conftest import OWNER, Restante
from tests.defaults import new_postgres_engine


def run_copy(source: Path, target: str, *flags: str) -> Result:
    return CliRunner().invoke(app, ["copy", "--from", str(source), "--to", target, *flags])


@pytest.fixture
def filled(restante: Restante) -> Restante:
    restante.ok("init", "--user", OWNER, "--password-stdin", stdin="correct horse battery\n")
    restante.ok("keys", "rotate")
    return restante


def test_embedded_database_is_copied_to_postgresql(filled: Restante, empty_postgres_url: str) -> None:
    result = run_copy(filled.data, empty_postgres_url)
    assert result.exit_code == 0, result.output
    assert "Copied and compared" in result.stdout
    assert str(DataFolder(filled.data).master_key_path) in result.stdout
    with closing(Database(new_postgres_engine(empty_postgres_url))) as database:
        assert [user.email for user in database.read_now(users.list_all)] == [OWNER]
    here = Settings(data=filled.data, database=DatabaseAddress(empty_postgres_url))
    with opened(here) as node:
        assert node.master_key is not None


def test_json_counts_tables_and_rows(filled: Restante, empty_postgres_url: str) -> None:
    result = run_copy(filled.data, empty_postgres_url, "--json")
    assert result.exit_code == 0, result.output
    message = json.loads(result.stdout)
    assert message["tables"] > 10
    assert message["rows"] >= 2


def test_copy_into_filled_database_is_refused(filled: Restante, empty_postgres_url: str) -> None:
    assert run_copy(filled.data, empty_postgres_url).exit_code == 0
    (filled.data / "copied-to").unlink()
    result = run_copy(filled.data, empty_postgres_url)
    assert result.exit_code == 1
    assert "not empty" in result.stderr


def test_copied_database_refuses_and_names_the_new_one(filled: Restante, empty_postgres_url: str) -> None:
    assert run_copy(filled.data, empty_postgres_url).exit_code == 0
    refused = f"the database in {filled.data} was copied to postgresql://"
    assert refused in filled.error_line("keys", "list")
    assert refused in filled.error_line("migrate", "status")
    with pytest.raises(DatabaseError, match=r"delete .*copied-to"), opened(Settings(data=filled.data)):
        pass
    (filled.data / "copied-to").unlink()
    filled.ok("keys", "list")


def test_folder_without_database_is_refused(tmp_path: Path, empty_postgres_url: str) -> None:
    result = run_copy(tmp_path / "nothing", empty_postgres_url)
    assert result.exit_code == 1
    assert "--from" in result.stderr
    assert not (tmp_path / "nothing").exists()


def test_folder_with_running_server_is_refused(filled: Restante, empty_postgres_url: str) -> None:
    is_locked, may_release = threading.Event(), threading.Event()

    def hold() -> None:
        with DataFolder(filled.data).lock():
            is_locked.set()
            may_release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_locked.wait(60)
    try:
        result = run_copy(filled.data, empty_postgres_url)
    finally:
        may_release.set()
        holder.join()
    assert result.exit_code == 1
    assert "already runs" in result.stderr


def test_server_does_not_start_on_unfinished_copy(
    filled: Restante, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_progress: CopyProgress) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("restante.cli.server.copy._ProgressBars.update", lambda _bars, progress: interrupt(progress))
        assert run_copy(filled.data, empty_postgres_url).exit_code != 0
    with (
        pytest.raises(DatabaseError, match="has not finished"),
        opened(Settings(data=filled.data, database=DatabaseAddress(empty_postgres_url))),
    ):
        pass
    assert run_copy(filled.data, empty_postgres_url).exit_code == 0
    with closing(Database(new_postgres_engine(empty_postgres_url))) as database:
        database.read_now(copy_tables.refuse_unfinished)
