import json
import stat
from contextlib import closing
from pathlib import Path

from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.people import users
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante
from tests.defaults import new_postgres_engine

PASSWORD = "correct horse battery"


def filled(restante: Restante, *flags: str) -> None:
    restante.ok("init", "--user", "ada@example.com", "--key", "k", "--password-stdin", *flags, stdin=PASSWORD)


def emails(engine: object) -> list[str]:
    with closing(Database(engine)) as database:  # type: ignore[arg-type]
        return [user.email for user in database.read_now(users.list_all)]


def test_backup_beside_a_server_is_restored_with_its_key(restante: Restante, tmp_path: Path) -> None:
    filled(restante)
    folder, again = tmp_path / "backup", Restante(tmp_path / "again")
    with DataFolder(restante.data).lock():
        made = restante.json("backup", str(folder))
    assert (made["engine"], made["has_master_key"]) == ("sqlite", True)
    assert {path.name for path in folder.iterdir()} == {"restante.db", "master.key", "backup.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    again.ok("restore", str(folder))
    assert emails(SqliteEngine(again.data / "restante.db")) == ["ada@example.com"]
    assert again.json("keys", "rotate")["kid"]
    assert {each["state"] for each in again.items("doctor")} == {"ok"}
    assert "exists: move the data folder away" in again.error_line("restore", str(folder))
    assert "a new or empty folder" in restante.error_line("backup", str(folder))


def test_changed_or_incomplete_backup_is_refused(restante: Restante, tmp_path: Path) -> None:
    filled(restante)
    folder, again = tmp_path / "backup", Restante(tmp_path / "again")
    restante.ok("backup", str(folder), "--without-key")
    assert not (folder / "master.key").exists()
    database = folder / "restante.db"
    content = database.read_bytes()
    database.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "is not the file that was backed up" in again.error_line("restore", str(folder))
    (folder / "backup.json").unlink()
    assert "has no backup.json" in again.error_line("restore", str(folder))
    assert not again.data.exists()


def test_folder_without_database_is_not_backed_up(restante: Restante, tmp_path: Path) -> None:
    assert "there is no data folder" in restante.error_line("backup", str(tmp_path / "backup"))
    assert not (tmp_path / "backup").exists()


def test_postgresql_is_backed_up_and_restored_into_either_engine(
    restante: Restante, tmp_path: Path, empty_postgres_url: str, postgres_url: str
) -> None:
    filled(restante, "--database", empty_postgres_url)
    folder, again = tmp_path / "backup", Restante(tmp_path / "again")
    made = restante.json("backup", str(folder), "--database", empty_postgres_url)
    assert made["engine"] == "postgresql"
    again.ok("restore", str(folder))
    assert emails(SqliteEngine(again.data / "restante.db")) == ["ada@example.com"]
    restante.ok("restore", str(folder), "--database", postgres_url)
    assert emails(new_postgres_engine(postgres_url)) == ["ada@example.com"]
    assert sorted(path.name for path in restante.data.iterdir()) == ["master.key"]
    refused = restante.error_line("restore", str(folder), "--database", postgres_url)
    assert "the target is not empty" in refused
    assert json.loads((folder / "backup.json").read_text())["sha256"] == made["sha256"]
