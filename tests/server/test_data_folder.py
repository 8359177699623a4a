import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from restante.database.errors import AlreadyRunning
from restante.server.data_folder import LOCK_PAUSE_SECONDS, DataFolder

HOLDER = """
import sys, pathlib
from restante.server.data_folder import DataFolder
with DataFolder(pathlib.Path(sys.argv[1])).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "deep" / "data")


def test_is_made_for_its_owner_alone(folder: DataFolder) -> None:
    before = os.umask(0)
    try:
        folder.create()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.path.chmod(0o750)
    folder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o750


def test_says_where_things_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(Path("data"))
    monkeypatch.chdir("/")
    assert folder.database_path == tmp_path / "data" / "restante.db"
    assert folder.master_key_path == tmp_path / "data" / "master.key"


def test_a_second_server_is_refused_and_told_who_runs(folder: DataFolder) -> None:
    with folder.lock():
        with pytest.raises(AlreadyRunning) as refused, folder.lock():
            pass
        said = str(refused.value)
        assert str(folder.path) in said
        assert f"process {os.getpid()}" in said
        assert "stop it first" in said
        with pytest.raises(AlreadyRunning):
            folder.refuse_if_running()
    with folder.lock():
        assert folder.lock_path.read_text() == f"{os.getpid()}\n"


def test_knows_whether_a_server_runs(folder: DataFolder) -> None:
    assert folder.running_pid() is None
    with folder.lock():
        assert folder.running_pid() == os.getpid()
        folder.lock_path.write_text("nonsense")
        assert folder.running_pid() == 0
    assert folder.running_pid() is None
    folder.refuse_if_running()


def test_the_lock_ends_when_its_holder_fails(folder: DataFolder) -> None:
    with pytest.raises(RuntimeError), folder.lock():
        raise RuntimeError
    with folder.lock():
        pass


def test_another_who_only_asks_does_not_keep_a_server_from_starting(folder: DataFolder) -> None:
    folder.create()
    stop = threading.Event()

    def ask_all_the_time() -> None:
        while not stop.wait(LOCK_PAUSE_SECONDS / 20):
            folder.running_pid()

    asking = threading.Thread(target=ask_all_the_time)
    asking.start()
    try:
        for _ in range(50):
            with folder.lock():
                pass
    finally:
        stop.set()
        asking.join()


@pytest.mark.slow
def test_a_killed_server_does_not_stand_in_the_way(folder: DataFolder) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert folder.running_pid() == holder.pid
        with pytest.raises(AlreadyRunning, match=str(holder.pid)), folder.lock():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert folder.lock_path.read_text() == f"{holder.pid}\n"
    with folder.lock():
        pass
