import sqlite3

from restante.cli.database import open_embedded_database
from restante.database.migrate import available
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante

NEWEST = available()[-1]


def set_back(restante: Restante) -> None:
    """Make the database look like one of the previous version: without the newest migration."""
    folder = DataFolder(restante.data)
    with open_embedded_database(folder):
        pass
    conn = sqlite3.connect(folder.database_path)
    conn.execute("DELETE FROM schema_migrations WHERE number = ?", (NEWEST.number,))
    conn.commit()
    conn.close()


def test_status_of_missing_database_creates_nothing(restante: Restante) -> None:
    statuses = restante.items("migrate", "status")
    assert [step["number"] for step in statuses] == [step.number for step in available()]
    assert {step["applied_at"] for step in statuses} == {None}
    assert {step["applied_at"] for step in restante.items("migrate", "status")} == {None}
    assert "lacking" in restante.ok("migrate", "status")
    assert not DataFolder(restante.data).database_path.exists()


def test_apply_runs_missing_migrations_once(restante: Restante) -> None:
    restante.data.mkdir()
    DataFolder(restante.data).database_path.touch()
    applied = restante.json("migrate", "apply")
    assert [step["number"] for step in applied] == [step.number for step in available()]
    assert restante.json("migrate", "apply") == []
    assert restante.ok("migrate", "apply") == "Nothing was lacking.\n"
    assert None not in {step["applied_at"] for step in restante.items("migrate", "status")}
    assert "lacking" not in restante.ok("migrate", "status")


def test_plan_prints_missing_migrations_without_running_them(restante: Restante) -> None:
    set_back(restante)
    planned = restante.json("migrate", "plan")
    assert planned == [{"number": NEWEST.number, "name": NEWEST.name, "sql": NEWEST.source}]
    assert NEWEST.source.strip() in restante.ok("migrate", "plan")
    assert restante.json("migrate", "plan") == planned


def test_plan_for_postgresql_is_in_its_dialect(restante: Restante, empty_postgres_url: str) -> None:
    planned = restante.ok("migrate", "plan", "--database", empty_postgres_url)
    assert "AUTOINCREMENT" not in planned
    assert "BIGINT" in planned
    assert restante.json("migrate", "apply", "--database", empty_postgres_url) != []
    assert restante.ok("migrate", "plan", "--database", empty_postgres_url) == "-- Nothing is lacking.\n"


def test_apply_under_running_server_is_refused(restante: Restante) -> None:
    set_back(restante)
    with DataFolder(restante.data).lock():
        assert "already runs" in restante.error_line("migrate", "apply")
    assert len(restante.json("migrate", "plan")) == 1
