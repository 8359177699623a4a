"""Writing files whose paths come from the server, without following symbolic links out of the allowed folders.

The allowed folder itself is opened by its path. Every folder below it is opened relative to its parent with
`O_NOFOLLOW`, and the file is written beside its target under a temporary name, flushed and renamed. So a link that
another user makes, at any moment, does not lead the agent elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

from restante_client.agent.device.install.consent import AllowedPath, Refused

FILE_BYTES_MAX = 64 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class FileState:
    """What is at a path: content or the target of a symbolic link, and who may do what."""

    content: bytes
    mode: int
    uid: int
    gid: int
    is_link: bool = False


@contextlib.contextmanager
def parent_of(path: AllowedPath, *, is_created: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder of the path, and the name of the file in it."""
    folder = os.open(path.root, _FOLDER)
    try:
        for part in path.parts[:-1]:
            if is_created:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            inner = _open_folder(part, folder, path)
            os.close(folder)
            folder = inner
        yield folder, path.parts[-1]
    finally:
        os.close(folder)


def read_state(path: AllowedPath) -> Optional[FileState]:
    """What is at the path now, or None. A folder or a device is refused."""
    try:
        with parent_of(path) as (folder, name):
            found = os.lstat(name, dir_fd=folder)
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(name, dir_fd=folder).encode()
                return FileState(target, 0o777, found.st_uid, found.st_gid, is_link=True)
            if not stat.S_ISREG(found.st_mode):
                raise Refused(f"{path.path} is not a file")
            content = _read(name, folder, path.path)
            return FileState(content, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
    except FileNotFoundError:
        return None


def read_source(path: AllowedPath) -> bytes:
    """The content of a file that an item copies."""
    with parent_of(path) as (folder, name):
        return _read(name, folder, path.path)


def write_state(path: AllowedPath, wanted: FileState) -> None:
    """Make the path have exactly this state, in one step that is on disk when the function returns."""
    with parent_of(path, is_created=True) as (folder, name):
        if _is_folder(name, folder):
            raise Refused(f"{path.path} is a folder")
        temporary = f".{name[:200]}.restante-new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        if wanted.is_link:
            os.symlink(wanted.content.decode(), temporary, dir_fd=folder)
        else:
            _write_new(temporary, folder, wanted)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def remove(path: AllowedPath) -> None:
    """Remove the file, if there is one."""
    with contextlib.suppress(FileNotFoundError), parent_of(path) as (folder, name):
        os.unlink(name, dir_fd=folder)
        os.fsync(folder)


def _write_new(name: str, folder: int, wanted: FileState) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # No other user can read it before it has its owner and mode.
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(wanted.content)
        writing.flush()
        if (wanted.uid, wanted.gid) != (os.geteuid(), os.getegid()):
            os.fchown(writing.fileno(), wanted.uid, wanted.gid)
        os.fchmod(writing.fileno(), wanted.mode)
        os.fsync(writing.fileno())


def _open_folder(part: str, folder: int, path: AllowedPath) -> int:
    try:
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError:
        raise Refused(f"{path.path}: {part} is a symbolic link or not a folder; allow the real path") from None


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return False


def _read(name: str, folder: int, path: str) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as reading:
        if not stat.S_ISREG(os.fstat(reading.fileno()).st_mode):
            raise Refused(f"{path} is not a file")
        content = reading.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise Refused(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    return content
