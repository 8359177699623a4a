"""Promise 18 of SECURITY.md: SIGHUP, a clock set back, a key without its database, a lock that fails, no output."""

import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from restante.cli.database import open_embedded_database
from restante.database.errors import DatabaseError
from restante.identity.master_key import MasterKeyError
from restante.identity.people import users
from restante.identity.signing_keys import make, store_first
from restante.server.app import opened
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from restante.server.monitoring.checks import check_node
from tests.faults.server_process import (
    PROGRAM,
    TIMEOUT_SECONDS,
    CommandResult,
    environment,
    prepare_data,
    run_command,
    running_server,
)

pytestmark = pytest.mark.slow


def test_sighup_without_tls_stops_nothing(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        server.send_signal(signal.SIGHUP)
        # SIGHUP is handled before this signal: both are pending at the same loop.
        assert httpx.get(f"http://127.0.0.1:{server.port}/healthz").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
        assert "SIGHUP received" in server.log_text()


def test_clock_set_back_an_hour_does_not_prolong_times_of_the_database(tmp_path: Path) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    command = (
        "env",
        f"LD_PRELOAD={library}",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
        "DONT_FAKE_MONOTONIC=1",
        "FAKETIME_NO_CACHE=1",
        f"FAKETIME_TIMESTAMP_FILE={offset}",
        PROGRAM,
    )
    with running_server(tmp_path / "data", command=command) as server:
        assert server.metric("restante_clock_ahead_seconds") == 0
        offset.write_text("-3600\n")
        assert 3000 < server.metric("restante_clock_ahead_seconds") <= 3600
        server.send_signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
        # The next process of the same boot.
        server.start()
        server.wait_until_ready()
        assert 3000 < server.metric("restante_clock_ahead_seconds") <= 3600


@pytest.mark.parametrize("left", ["master.key", "restante.db-wal"])
def test_folder_without_its_database_is_refused_with_advice(tmp_path: Path, left: str) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    (folder.path / left).touch(0o600)
    advice = f"{left} of an earlier database is in {folder.path}: put restante.db back from its backup"
    with pytest.raises(DatabaseError, match=advice), opened(Settings(data=folder.path)):
        pass
    with pytest.raises(DatabaseError, match=advice), open_embedded_database(folder):
        pass
    (finding,) = (each for each in check_node(Settings(data=folder.path)) if each.subject == "database")
    assert advice in finding.what
    assert sorted(path.name for path in folder.path.iterdir() if path.name != "restante.lock") == [left]


def test_refused_start_prints_one_line(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    folder.master_key_path.touch(0o600)
    refused = run_command(folder.path, "serve", "--listen", "127.0.0.1:0")
    assert (refused.code, refused.error.count("\n")) == (1, 1)
    assert refused.error.startswith(f"restante: {folder.database_path}: it is missing")


def test_database_without_its_key_is_refused_with_advice(tmp_path: Path) -> None:
    folder, settings = DataFolder(tmp_path / "data"), Settings(data=tmp_path / "data")
    with opened(settings) as node:
        node.database.write_now(store_first, make(node.master_key))
    folder.master_key_path.unlink()
    with pytest.raises(MasterKeyError, match="put it back from its backup"), opened(settings):
        pass
    assert not folder.master_key_path.exists()


def test_file_system_without_flock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_descriptor: int, _kind: int) -> None:
        raise OSError(37, "No locks available")

    folder = DataFolder(tmp_path / "data")
    folder.create()
    folder.lock_path.touch()
    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(OSError, match=f"cannot lock {folder.lock_path}: No locks available: .* supports flock"):
        folder.running_pid()
    with pytest.raises(OSError, match="supports flock"), folder.lock():
        pass


def run_with_output(data: Path, redirection: str, *args: str) -> CommandResult:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {redirection}', PROGRAM, *args, "--data", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return CommandResult(done.returncode, "", done.stderr)


def test_command_with_closed_output_is_refused_before_it_changes_anything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    refused = run_with_output(data, ">&-", "init", "--key", "lost")
    assert (refused.code, refused.error.count("\n")) == (1, 1)
    assert "standard output is closed" in refused.error
    assert not data.exists()


def test_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    refused = run_with_output(tmp_path / "data", ">/dev/full", "settings")
    assert refused.code == 1
    assert refused.error.startswith("restante: standard output cannot be written: No space left on device\n")


@pytest.mark.parametrize("redirection", [">/dev/full", ">&- 2>&- <&-"])
def test_server_needs_no_output(tmp_path: Path, redirection: str) -> None:
    command = ("sh", "-c", f'exec "$0" "$@" {redirection}', PROGRAM)
    with running_server(prepare_data(tmp_path / "data").data, command=command) as server:
        server.send_signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
        assert "Traceback" not in server.log_text()
    # Nothing was printed into the files that would get the numbers of the closed streams.
    with open_embedded_database(DataFolder(tmp_path / "data")) as database:
        assert len(database.read_now(users.list_all)) == 1
