import os
import subprocess
import sys
from pathlib import Path

import pytest

from restante.demo.temporary_folder import remove_leftovers, temporary_folder
from restante.server.data_folder import LOCK_NAME

HOLD = """
import os, signal
from restante.demo.temporary_folder import temporary_folder
with temporary_folder() as folder:
    (folder / "logs").mkdir()
    (folder / "logs" / "server.log").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def left(temporary: Path) -> Path:
    """The folder of a process that was killed."""
    subprocess.run([sys.executable, "-c", HOLD], timeout=60)
    (folder,) = temporary.iterdir()
    return folder


def removed() -> list[str]:
    reports: list[str] = []
    remove_leftovers(reports.append)
    return reports


def test_folder_of_a_killed_demo_is_removed(left: Path) -> None:
    assert removed() == [f"Removed {left}, the folder of a demo that was killed."]
    assert not left.exists()
    assert removed() == []


def test_folder_of_a_running_demo_is_kept() -> None:
    with temporary_folder() as folder:
        assert removed() == []
        assert folder.is_dir()
    assert not folder.exists()


def test_folder_that_no_demo_has_marked_is_kept(temporary: Path) -> None:
    mine = temporary / "restante-demo-mine"
    mine.mkdir()
    (mine / LOCK_NAME).touch()  # a demo that is starting, or ending
    (temporary / "restante-demo-file").touch()
    assert removed() == []
    assert mine.is_dir()


def test_link_to_a_folder_is_kept(left: Path, temporary: Path) -> None:
    moved = left.rename(temporary / "elsewhere")
    left.symlink_to(moved)
    assert removed() == []
    assert moved.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_of_another_user_is_kept(left: Path) -> None:
    os.chown(left, 65534, 65534)
    assert removed() == []
    assert left.is_dir()


def test_folder_that_cannot_be_removed_is_reported_and_removed_later(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> None:
        raise OSError("in use")

    with monkeypatch.context() as patch:
        patch.setattr("restante.demo.temporary_folder.rmtree", refuse)
        assert removed() == [f"{left}, the folder of a demo that was killed, cannot be removed: in use"]
    assert removed() == [f"Removed {left}, the folder of a demo that was killed."]
