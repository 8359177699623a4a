"""`restante backup` and `restante restore`: a consistent copy of a database, made while the server runs, and back.

    embedded database ── SQLite's online backup ──┐
    PostgreSQL ── one snapshot, table by table ───┴──▶ FOLDER: restante.db, master.key, backup.json ──▶ either engine

A backup is an embedded database, whatever engine it comes from. It is complete when `backup.json` exists: that file is
written last, after the copy was checked, and has the digest of the database file. A restore checks the digest first,
and never writes over an existing database or another master key.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from restante import __version__
from restante.cli.database import load_settings
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import print_result
from restante.cli.remote.times import rfc3339
from restante.core.errors import BadInput, Conflict
from restante.database.copy_tables import copy
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate, pending
from restante.database.sqlite import SqliteEngine
from restante.server.config.settings import Settings
from restante.server.data_folder import DATABASE_NAME, MASTER_KEY_NAME, DataFolder
from restante.server.engines import engine_of

MANIFEST_NAME = "backup.json"
BLOCK_BYTES = 1 << 20
PAGES_AT_ONCE = 1000
BUSY_SECONDS = 30.0

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the backup.")]


class Manifest(msgspec.Struct, kw_only=True):
    """What `backup.json` says. `sha256` is that of the database file."""

    version: str
    made_at: str
    engine: str
    bytes: int
    sha256: str
    has_master_key: bool


def backup(
    folder: FolderArgument,
    without_key: Annotated[
        bool, typer.Option("--without-key", help="Leave the master key out; without it a backup is useless.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Make a backup while the server runs, and check it."""
    settings = load_settings(data, config)
    source = DataFolder(settings.data)
    if settings.database is None:
        source.refuse_without_database()
    if folder.exists() and any(folder.iterdir()):
        raise BadInput("FOLDER", f"a new or empty folder; {folder} has files")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / DATABASE_NAME
    if settings.database is None:
        _copy_embedded(source.database_path, file)
    else:
        _copy_shared(settings, file)
    _check(file)
    has_key = not without_key and source.master_key_path.exists()
    # While the master key changes, a value may be under either key.
    for path in source.master_key_paths if has_key else ():
        _copy_private(path, folder / path.name)
    manifest = Manifest(
        version=__version__,
        made_at=rfc3339(datetime.now(UTC)),
        engine="sqlite" if settings.database is None else "postgresql",
        bytes=file.stat().st_size,
        sha256=_digest(file),
        has_master_key=has_key,
    )
    _write_private(folder / MANIFEST_NAME, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    key = "" if has_key else " The master key is not in it: keep it elsewhere."
    print_result(manifest, f"The backup in {folder} is complete and checked: {manifest.bytes} bytes.{key}", json)


def restore(
    folder: FolderArgument, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Check a backup, and restore it.

    The target is a data folder without a database, or an empty PostgreSQL database.
    """
    manifest = _manifest(folder)
    file = folder / DATABASE_NAME
    if _digest(file) != manifest.sha256:
        raise Conflict(f"{file} is not the file that was backed up: nothing was restored")
    _check(file)
    settings = load_settings(data, config)
    target = DataFolder(settings.data)
    target.refuse_if_running()
    if settings.database is None and target.database_path.exists():
        raise Conflict(f"{target.database_path} exists: move the data folder away first, or name another with --data")
    target.create()
    _restore_key(folder / MASTER_KEY_NAME, target.master_key_path)
    _restore_key(folder / target.next_master_key_path.name, target.next_master_key_path)
    if settings.database is None:
        _copy_private(file, target.database_path)
        _set_journal_mode(target.database_path, "WAL")
    else:
        _restore_shared(file, settings)
    text = f"The backup of {manifest.made_at} is restored. Before you start the server, see `restante doctor`."
    print_result(manifest, text, json)


def _copy_embedded(source: Path, target: Path) -> None:
    _write_private(target, b"")
    with (
        closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as here,
        closing(sqlite3.connect(target)) as there,
    ):
        here.backup(there, pages=PAGES_AT_ONCE)
    _set_journal_mode(target, "DELETE")


def _copy_shared(settings: Settings, target: Path) -> None:
    _write_private(target, b"")
    embedded = SqliteEngine(target)
    migrate(embedded)
    source = engine_of(settings)
    with closing(source.connect(writable=False)) as conn:
        if pending(conn):
            raise DatabaseError("the database is of an older version: restart the servers that use it first")
    copy(source, embedded, lambda _progress: None)
    embedded.checkpoint()
    _set_journal_mode(target, "DELETE")


def _set_journal_mode(file: Path, mode: str) -> None:
    """A backup is one file, without a log beside it (DELETE). A server expects a log (WAL)."""
    with closing(sqlite3.connect(file)) as conn:
        conn.execute(f"PRAGMA journal_mode = {mode}")


def _restore_shared(file: Path, settings: Settings) -> None:
    # On a copy: opening an embedded database writes beside it.
    scratch = DataFolder(settings.data).path / f"restore-{os.getpid()}.db"
    try:
        _copy_private(file, scratch)
        embedded, target = SqliteEngine(scratch), engine_of(settings)
        migrate(embedded)
        migrate(target)
        copy(embedded, target, lambda _progress: None)
    finally:
        for path in scratch.parent.glob(f"{scratch.name}*"):
            path.unlink()


def _check(file: Path) -> None:
    """Raise Conflict if the database in the file is damaged."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as conn:
        try:
            found = [row[0] for row in conn.execute("PRAGMA integrity_check(1)")]
            orphan = conn.execute("PRAGMA foreign_key_check").fetchone()
        except sqlite3.DatabaseError as error:
            raise Conflict(f"{file} is damaged: {error}") from None
    if found != ["ok"]:
        raise Conflict(f"{file} is damaged: {found[0]}")
    if orphan is not None:
        raise Conflict(f"{file} is damaged: a row of {orphan[0]} refers to a row that does not exist")


def _restore_key(backed_up: Path, target: Path) -> None:
    if not backed_up.exists():
        return
    if target.exists():
        if target.read_bytes() != backed_up.read_bytes():
            raise Conflict(f"{target} is another key than that of the backup: move it away first")
        return
    _copy_private(backed_up, target)


def _manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST_NAME).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise BadInput("FOLDER", f"a complete backup; {folder} has no {MANIFEST_NAME}") from None
    except msgspec.MsgspecError as error:
        raise BadInput("FOLDER", f"a backup whose {MANIFEST_NAME} can be read ({error})") from None


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for block in iter(lambda: stream.read(BLOCK_BYTES), b""):
            digest.update(block)
    return digest.hexdigest()


def _copy_private(source: Path, target: Path) -> None:
    def write(descriptor: int) -> None:
        with source.open("rb") as here, os.fdopen(descriptor, "wb", closefd=False) as there:
            shutil.copyfileobj(here, there, BLOCK_BYTES)

    _create(target, write)


def _write_private(path: Path, content: bytes) -> None:
    _create(path, lambda descriptor: os.write(descriptor, content))


def _create(path: Path, write: Callable[[int], object]) -> None:
    """Create a file that only its owner can read, and flush it to disk. It must not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write(descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
