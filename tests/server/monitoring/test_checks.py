import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from restante.cli.database import open_embedded_database
from restante.database.sqlite import SqliteConnection, SqliteEngine
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import signing_keys
from restante.identity.master_key import MasterKey, MasterKeySource
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from restante.server.data_folder import DataFolder
from restante.server.monitoring import checks
from restante.server.monitoring.checks import Finding, State, check_node
from tests.conftest import ManualClock
from tests.defaults import append_signals
from tests.events import inbox_fixture
from tests.faults.server_process import PROGRAM, environment

HOUR_SECONDS = 3600


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    with open_embedded_database(folder):
        pass
    return folder


def found(folder: DataFolder, subject: str, master_key: str | None = None) -> Finding:
    settings = Settings(data=folder.path, master_key=master_key)
    matching = [each for each in check_node(settings) if each.subject == subject]
    assert len(matching) == 1, matching
    return matching[0]


def state_found_by_ordinary_owner(folder: DataFolder, subject: str) -> str:
    """What `restante doctor` finds if modes of files bind it: they do not bind root, unless it gives up its powers."""
    command = [PROGRAM, "doctor", "--data", str(folder.path), "--json"]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    (state,) = [each["state"] for each in json.loads(done.stdout)["items"] if each["subject"] == subject]
    return str(state)


@pytest.fixture
def conn(folder: DataFolder, clock: ManualClock) -> Iterator[SqliteConnection]:
    conn = SqliteEngine(folder.database_path, clock=clock).connect(writable=True)
    conn.begin()
    yield conn
    conn.close()


def test_missing_folder_is_a_warning(tmp_path: Path) -> None:
    finding = found(DataFolder(tmp_path / "nowhere" / "data"), "data folder")
    assert finding.state is State.warning


def test_folder_readable_by_others_is_a_warning(folder: DataFolder) -> None:
    assert found(folder, "data folder").state is State.ok
    folder.path.chmod(0o750)
    finding = found(folder, "data folder")
    assert (finding.state, finding.remedy) == (State.warning, f"chmod 700 {folder.path}")


@pytest.mark.slow
def test_folder_not_writable_is_a_problem(folder: DataFolder) -> None:
    assert state_found_by_ordinary_owner(folder, "data folder") == "ok"
    folder.path.chmod(0o500)
    try:
        assert state_found_by_ordinary_owner(folder, "data folder") == "problem"
    finally:
        folder.path.chmod(0o700)


def test_unusable_master_key_is_a_problem(folder: DataFolder) -> None:
    path = folder.master_key_path
    assert "not created yet" in found(folder, "master key").what
    MasterKeySource(path, None).make()
    assert found(folder, "master key").state is State.ok
    path.chmod(0o640)
    finding = found(folder, "master key")
    assert finding.state is State.problem
    assert finding.remedy.startswith(f"chmod 600 {path}")
    assert found(folder, "master key", master_key="ab" * 32).state is State.ok
    path.chmod(0o600)
    path.write_text("x")
    assert found(folder, "master key").state is State.problem


@pytest.mark.slow
def test_unreadable_master_key_is_a_problem(folder: DataFolder) -> None:
    MasterKeySource(folder.master_key_path, None).make()
    assert state_found_by_ordinary_owner(folder, "master key") == "ok"
    folder.master_key_path.chmod(0o000)
    assert state_found_by_ordinary_owner(folder, "master key") == "problem"


def test_lost_or_foreign_master_key_is_a_problem(folder: DataFolder) -> None:
    with open_embedded_database(folder) as database:
        database.write_now(signing_keys.store_first, signing_keys.make(MasterKey(bytes(32))))
    path = folder.master_key_path
    lost = found(folder, "master key")
    assert lost.state is State.problem
    assert str(path) in lost.what
    assert not path.exists()
    MasterKeySource(path, None).make()
    foreign = found(folder, "master key")
    assert (foreign.state, str(path) in foreign.what) == (State.problem, True)
    assert "RESTANTE_MASTER_KEY" in found(folder, "master key", master_key="ab" * 32).what
    right = found(folder, "master key", master_key=bytes(32).hex())
    assert (right.state, right.what) == (State.ok, "given by RESTANTE_MASTER_KEY")


def test_master_key_beside_unreadable_database_is_ok(folder: DataFolder) -> None:
    MasterKeySource(folder.master_key_path, None).make()
    folder.database_path.write_text("something else " * 100)
    assert found(folder, "master key").state is State.ok


@pytest.mark.parametrize(
    ("free_gib", "total_gib", "state"),
    [(10, 100, State.ok), (0.9, 10, State.warning), (4, 100, State.warning), (0, 0, State.warning)],
)
def test_low_disk_space_is_a_warning(free_gib: float, total_gib: float, state: State) -> None:
    assert checks.disk_finding(int(free_gib * 1024**3), int(total_gib * 1024**3)).state is state


@pytest.mark.parametrize(("year", "state"), [(1970, State.problem), (2030, State.ok), (2150, State.problem)])
def test_clock_outside_sane_years_is_a_problem(year: int, state: State) -> None:
    assert checks.clock_finding(datetime(year, 1, 1, tzinfo=UTC)).state is state


def test_running_server_is_reported(folder: DataFolder) -> None:
    assert found(folder, "server").what == "not running"
    with folder.lock():
        assert found(folder, "server").what == f"running as process {os.getpid()}"


def test_shared_database_has_no_server_finding(folder: DataFolder, postgres_url: str) -> None:
    shared = Settings(data=folder.path, database=DatabaseAddress(postgres_url))
    assert "server" not in {finding.subject for finding in checks.check_node(shared)}


def test_missing_database_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    assert found(DataFolder(tmp_path / "data"), "database").state is State.warning


def test_file_that_is_no_database_is_a_problem(folder: DataFolder) -> None:
    folder.database_path.write_text("something else " * 100)
    assert found(folder, "database").state is State.problem


def test_damaged_database_is_a_problem(folder: DataFolder) -> None:
    with sqlite3.connect(folder.database_path) as driver:
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = driver.execute("PRAGMA page_size").fetchone()[0]
    driver.close()
    with folder.database_path.open("r+b") as file:
        file.seek(3 * page)
        file.write(os.urandom(2 * page))
    states = [each.state for each in check_node(Settings(data=folder.path)) if each.subject == "database"]
    assert State.problem in states


def test_other_journal_mode_is_a_problem(folder: DataFolder) -> None:
    assert found(folder, "journal").state is State.ok
    driver = sqlite3.connect(folder.database_path)
    driver.execute("PRAGMA journal_mode = DELETE")
    driver.close()
    assert found(folder, "journal").state is State.problem


def test_missing_migration_is_a_problem(folder: DataFolder) -> None:
    assert found(folder, "schema").state is State.ok
    with sqlite3.connect(folder.database_path) as driver:
        driver.execute("DELETE FROM schema_migrations WHERE number = 1")
    driver.close()
    finding = found(folder, "schema")
    assert finding.state is State.problem
    assert "0001_identity" in finding.what


def test_newer_schema_is_a_problem(folder: DataFolder) -> None:
    with sqlite3.connect(folder.database_path) as driver:
        driver.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 0)")
    driver.close()
    findings = [each for each in check_node(Settings(data=folder.path)) if each.state is State.problem]
    assert "newer version" in findings[0].what


def test_signals_in_the_future_are_a_warning(conn: SqliteConnection, clock: ManualClock) -> None:
    assert checks.signal_times_finding(conn).state is State.ok
    append_signals(conn, 1, [Signal("test", 1, {})])
    assert checks.signal_times_finding(conn).state is State.ok
    clock.advance(-HOUR_SECONDS)
    conn.commit()
    conn.begin()
    assert checks.signal_times_finding(conn).state is State.warning


def test_late_or_failed_outbox_rows_are_a_warning(conn: SqliteConnection, clock: ManualClock) -> None:
    assert [each.state for each in checks.outbox_findings(conn)] == [State.ok]
    outbox.enqueue(conn, 1, Signal("test", 1, {}))
    assert [each.what for each in checks.outbox_findings(conn)] == ["1 waiting, none failed"]
    clock.advance(HOUR_SECONDS)
    conn.commit()
    conn.begin()
    (finding,) = checks.outbox_findings(conn)
    assert (finding.state, finding.what) == (State.warning, "1 waiting, the oldest for 3600 s")
    outbox.claim(conn, "d1", 30, 1)
    conn.run(outbox.SQL.mark_failed, id=1, claimed_by="d1", failure_reason="no such log")
    (finding,) = checks.outbox_findings(conn)
    assert (finding.state, finding.what) == (State.warning, "1 FAILED")


def test_late_or_errored_events_are_a_warning(conn: SqliteConnection, clock: ManualClock) -> None:
    assert checks.event_finding(conn).state is State.ok
    tpp = inbox_fixture.add_client(conn)
    inbox_fixture.put_unsigned(conn, tpp.id, "a")
    assert checks.event_finding(conn).what == "1 to be signed, none errored"
    clock.advance(HOUR_SECONDS)
    conn.commit()
    conn.begin()
    finding = checks.event_finding(conn)
    assert (finding.state, finding.what) == (State.warning, "1 to be signed, the oldest for 3600 s")
    inbox_fixture.sign(conn, tpp.id, "a")
    inbox_fixture.report_errors(conn, tpp.id, {"a": ("jwtIss", "not ours")})
    finding = checks.event_finding(conn)
    assert (finding.state, finding.what) == (State.warning, "1 that clients could not use")
