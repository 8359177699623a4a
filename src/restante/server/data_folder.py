"""The data folder: everything a server keeps, and the lock that gives it to one server at a time.

The lock is the kernel's (flock), not the file's existence: it ends with the process that holds it, however
that ends, so a killed server never stands in the way of the next. The file only says who holds it. Commands
beside a running server never take it; they are plain further users of the database.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.database.errors import AlreadyRunning

OWNER_ONLY = 0o700
DATABASE_NAME = "restante.db"
MASTER_KEY_NAME = "master.key"
LOCK_NAME = "restante.lock"
LOCK_TRIES = 10
LOCK_PAUSE_SECONDS = 0.02


class DataFolder:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def database_path(self) -> Path:
        return self.path / DATABASE_NAME

    @property
    def master_key_path(self) -> Path:
        return self.path / MASTER_KEY_NAME

    @property
    def lock_path(self) -> Path:
        return self.path / LOCK_NAME

    def create(self) -> None:
        """Make the folder, its owner's alone, if it is not there. One that is there keeps its mode."""
        self.path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one server of this folder, or raise AlreadyRunning."""
        self.create()
        descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _take(descriptor):
                raise self._already_running(_pid_in(descriptor))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def running_pid(self) -> int | None:
        """The process that serves this folder, 0 if it has not said which it is, None if there is none."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid_in(descriptor)
        else:
            return None
        finally:
            os.close(descriptor)

    def refuse_if_running(self) -> None:
        """AlreadyRunning if there is a server; no promise that there will be none in a moment."""
        pid = self.running_pid()
        if pid is not None:
            raise self._already_running(pid)

    def _already_running(self, pid: int) -> AlreadyRunning:
        process = f"process {pid}" if pid else "another process"
        return AlreadyRunning(
            f"a server already runs on {self.path} ({process}): stop it first, or give this one a folder "
            "of its own with --data"
        )


def _take(descriptor: int) -> bool:
    """Lock for this process alone. Tried for a moment: who asks `running_pid` holds it for an instant."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return True
    return False


def _pid_in(descriptor: int) -> int:
    written = os.pread(descriptor, 32, 0).strip()
    return int(written) if written.isdigit() else 0
