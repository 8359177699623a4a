import sqlite3

from restante.cli.opening import opened_in
from restante.database.migrate import available
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante

NEWEST = available()[-1]


def set_back(restante: Restante) -> None:
    """As a database that the version before has left: the newest migration has not been."""
    folder = DataFolder(restante.data)
    with opened_in(folder):
        pass
    conn = sqlite3.connect(folder.database_path)
    conn.execute("DELETE FROM schema_migrations WHERE number = ?", (NEWEST.number,))
    conn.commit()
    conn.close()


def test_a_new_database_lacks_everything_and_looking_makes_nothing_of_it(restante: Restante) -> None:
    standing = restante.json("migrate", "status")
    assert [step["number"] for step in standing] == [step.number for step in available()]
    assert {step["applied_at"] for step in standing} == {None}
    assert {step["applied_at"] for step in restante.json("migrate", "status")} == {None}
    assert "lacking" in restante.ok("migrate", "status")
    assert not DataFolder(restante.data).database_path.exists()


def test_everything_lacking_is_applied_once(restante: Restante) -> None:
    applied = restante.json("migrate", "apply")
    assert [step["number"] for step in applied] == [step.number for step in available()]
    assert restante.json("migrate", "apply") == []
    assert restante.ok("migrate", "apply") == "Nothing was lacking.\n"
    assert None not in {step["applied_at"] for step in restante.json("migrate", "status")}
    assert "lacking" not in restante.ok("migrate", "status")


def test_the_plan_is_what_is_lacking_and_runs_none_of_it(restante: Restante) -> None:
    set_back(restante)
    planned = restante.json("migrate", "plan")
    assert planned == [{"number": NEWEST.number, "name": NEWEST.name, "sql": NEWEST.source}]
    assert NEWEST.source.strip() in restante.ok("migrate", "plan")
    assert restante.json("migrate", "plan") == planned


def test_the_plan_for_postgresql_is_in_its_own_words(restante: Restante, empty_postgres_url: str) -> None:
    planned = restante.ok("migrate", "plan", "--database", empty_postgres_url)
    assert "AUTOINCREMENT" not in planned
    assert "BIGINT" in planned
    assert restante.json("migrate", "apply", "--database", empty_postgres_url) != []
    assert restante.ok("migrate", "plan", "--database", empty_postgres_url) == "-- Nothing is lacking.\n"


def test_a_server_does_not_have_the_schema_changed_under_it(restante: Restante) -> None:
    set_back(restante)
    with DataFolder(restante.data).lock():
        assert "already runs" in restante.complaint("migrate", "apply")
    assert len(restante.json("migrate", "plan")) == 1
