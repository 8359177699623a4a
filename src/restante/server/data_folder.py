"""The data folder: all files of a server, and the lock that allows one server at a time.

The lock is a lock of the kernel (flock), not the existence of a file. It ends with the process that holds it, even a
killed one, so it never blocks the next server. The file only contains the process id of the holder. Commands beside a
running server do not take the lock; they are ordinary users of the database.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.database.errors import AlreadyRunning, DatabaseError
from restante.identity.master_key import NEXT_SUFFIX

OWNER_ONLY = 0o700
DATABASE_NAME = "restante.db"
MASTER_KEY_NAME = "master.key"
LOCK_NAME = "restante.lock"
CLOCK_NAME = "restante.clock"
SOCKET_NAME = "restante.sock"
COPIED_NAME = "copied-to"
# The length of `sun_path`, without the NUL at its end.
PATH_BYTES_MAX = 107
LOCK_TRIES = 10
LOCK_PAUSE_SECONDS = 0.02


def path_problem(path: Path) -> str | None:
    """Why no socket can have this path; None if one can."""
    length = len(os.fsencode(path))
    if length <= PATH_BYTES_MAX:
        return None
    return f"the path {path} has {length} bytes, and a Unix socket allows {PATH_BYTES_MAX}: use a shorter data folder"


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
    def next_master_key_path(self) -> Path:
        """The new key while the master key changes."""
        return self.path / f"{MASTER_KEY_NAME}{NEXT_SUFFIX}"

    @property
    def master_key_paths(self) -> list[Path]:
        """The files of master keys that exist."""
        return [path for path in (self.master_key_path, self.next_master_key_path) if path.exists()]

    @property
    def lock_path(self) -> Path:
        return self.path / LOCK_NAME

    @property
    def clock_path(self) -> Path:
        return self.path / CLOCK_NAME

    @property
    def socket_path(self) -> Path:
        """The Unix socket of the server that runs on this folder."""
        return self.path / SOCKET_NAME

    def create(self) -> None:
        """Create the folder, private to its owner. An existing folder keeps its mode."""
        self.path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)

    def refuse_without_database(self) -> None:
        """Raise DatabaseError if there is no database in the folder: it is the wrong folder, or nothing began here."""
        self.refuse_key_without_database()
        if not self.database_path.exists():
            what = "there is no database in" if self.path.exists() else "there is no data folder"
            raise DatabaseError(f"{what} {self.path}: name the right one with --data, or make one with `restante init`")

    def refuse_key_without_database(self) -> None:
        """Raise DatabaseError if the folder was in use and its database is missing: a new one would hide the loss."""
        left = [path.name for path in (self.master_key_path, self._wal_path) if path.exists()]
        if left and not self.database_path.exists():
            raise DatabaseError(
                f"it is missing, but {' and '.join(left)} of an earlier database "
                f"{'is' if len(left) == 1 else 'are'} in {self.path}: put {DATABASE_NAME} back from its backup; "
                f"to begin with a new database, move {' and '.join(left)} to another folder"
            )

    def mark_copied(self, target: str) -> None:
        """Record that the database was copied to the target, so that no server and no command uses the old one."""
        self._copied_path.write_text(f"{target}\n", "utf-8")

    def refuse_copied(self) -> None:
        """Raise DatabaseError if the database was copied to another one: what is written here would be lost."""
        try:
            target = self._copied_path.read_text("utf-8").strip()
        except FileNotFoundError:
            return
        raise DatabaseError(
            f"the database in {self.path} was copied to {target}: use that one with --database; to go on with the old "
            f"one nevertheless, delete {self._copied_path}"
        )

    @property
    def _copied_path(self) -> Path:
        return self.path / COPIED_NAME

    @property
    def _wal_path(self) -> Path:
        return self.path / f"{DATABASE_NAME}-wal"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of this folder, or raise AlreadyRunning."""
        self.create()
        descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not self._acquire(descriptor):
                raise self._already_running(_pid_in(descriptor))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def running_pid(self) -> int | None:
        """The id of the process that serves this folder, 0 if it is not known yet, None if there is none."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return None if self._flock(descriptor, fcntl.LOCK_SH) else _pid_in(descriptor)
        finally:
            os.close(descriptor)

    def killed_pid(self) -> int | None:
        """The id of the last process that held the lock, if it was killed: an orderly end empties the file."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return (_pid_in(descriptor) or None) if self._flock(descriptor, fcntl.LOCK_SH) else None
        finally:
            os.close(descriptor)

    def refuse_if_running(self) -> None:
        """Raise AlreadyRunning if a server runs now. One may still start right afterwards."""
        pid = self.running_pid()
        if pid is not None:
            raise self._already_running(pid)

    def _already_running(self, pid: int) -> AlreadyRunning:
        process = f"process {pid}" if pid else "another process"
        return AlreadyRunning(
            f"a server already runs on {self.path} ({process}): stop it first, or use another folder with --data"
        )

    def _acquire(self, descriptor: int) -> bool:
        """Lock exclusively. Retries for a short time: `running_pid` of another process holds the lock briefly."""
        for _ in range(LOCK_TRIES):
            if self._flock(descriptor, fcntl.LOCK_EX):
                return True
            time.sleep(LOCK_PAUSE_SECONDS)
        return False

    def _flock(self, descriptor: int, kind: int) -> bool:
        """Whether the lock was acquired; False if another process holds it."""
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OSError(
                f"cannot lock {self.lock_path}: {error.strerror}: the data folder must be on a file system that "
                "supports flock, such as a local disk"
            ) from error
        return True


def _pid_in(descriptor: int) -> int:
    content = os.pread(descriptor, 32, 0).strip()
    return int(content) if content.isdigit() else 0
