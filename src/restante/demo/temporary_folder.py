"""The temporary folder of a demo, which is removed at its end, and the folders that killed demos have left.

A demo holds the lock of its folder, a file with its process id. The kernel releases the lock when the process ends; an
orderly end empties the file and removes the folder. So a free lock with a process id in its file is that of a demo that
was killed. Folders of other users, links, and folders without such a file are never touched.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

from restante.database.errors import AlreadyRunning
from restante.server.data_folder import LOCK_NAME, DataFolder

PREFIX = "restante-demo-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with DataFolder(folder).lock():
            yield folder
    finally:
        rmtree(folder)


def remove_leftovers(report: Callable[[str], None]) -> None:
    """Remove the folders of demos that were killed."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        if not _is_own_folder(folder) or DataFolder(folder).killed_pid() is None:
            continue
        try:
            _remove(folder)
        except OSError as error:
            report(f"{folder}, the folder of a demo that was killed, cannot be removed: {error}")
        else:
            report(f"Removed {folder}, the folder of a demo that was killed.")


def _is_own_folder(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        # Another demo was faster.
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _remove(folder: Path) -> None:
    """Remove the lock last: if something cannot be removed, the next demo tries again."""
    # Another demo that starts now removes the folder.
    with suppress(AlreadyRunning), DataFolder(folder).lock():
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                rmtree(entry)
            elif entry.name != LOCK_NAME:
                entry.unlink()
        rmtree(folder)
