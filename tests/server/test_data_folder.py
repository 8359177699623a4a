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


def test_folder_is_private_to_its_owner(folder: DataFolder) -> None:
    before = os.umask(0)
    try:
        folder.create()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.path.chmod(0o750)
    folder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o750


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(Path("data"))
    monkeypatch.chdir("/")
    assert folder.database_path == tmp_path / "data" / "restante.db"
    assert folder.master_key_path == tmp_path / "data" / "master.key"


def test_second_server_is_refused_with_process_id(folder: DataFolder) -> None:
    with folder.lock():
        with pytest.raises(AlreadyRunning) as caught, folder.lock():
            pass
        message = str(caught.value)
        assert str(folder.path) in message
        assert f"process {os.getpid()}" in message
        assert "stop it first" in message
        with pytest.raises(AlreadyRunning):
            folder.refuse_if_running()
    with folder.lock():
        assert folder.lock_path.read_text() == f"{os.getpid()}\n"


def test_running_pid_names_running_server(folder: DataFolder) -> None:
    assert folder.running_pid() is None
    with folder.lock():
        assert folder.running_pid() == os.getpid()
        folder.lock_path.write_text("nonsense")
        assert folder.running_pid() == 0
    assert folder.running_pid() is None
    folder.refuse_if_running()


def test_lock_ends_when_its_holder_raises(folder: DataFolder) -> None:
    with pytest.raises(RuntimeError), folder.lock():
        raise RuntimeError
    with folder.lock():
        pass


def test_running_pid_does_not_block_lock(folder: DataFolder) -> None:
    folder.create()
    stop = threading.Event()

    def read_pid_repeatedly() -> None:
        while not stop.wait(LOCK_PAUSE_SECONDS / 20):
            folder.running_pid()

    reader = threading.Thread(target=read_pid_repeatedly)
    reader.start()
    try:
        for _ in range(50):
            with folder.lock():
                pass
    finally:
        stop.set()
        reader.join()


@pytest.mark.slow
def test_lock_of_killed_server_is_released(folder: DataFolder) -> None:
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
