"""The doctor's checks. Each one checks one thing, changes nothing, and says how to fix a problem.

A check that cannot run because an earlier one failed is skipped: its finding would only repeat the first.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.engine import Engine
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.database.migrate import is_new, pending
from restante.database.queries import queries_beside
from restante.delivery.outbox import outbox
from restante.events.signing import signer
from restante.identity import signing_keys
from restante.identity.master_key import VARIABLE, MasterKey, MasterKeyError, MasterKeySource
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from restante.server.engines import database_location, engine_of, master_key_source

SQL = queries_beside(__file__)

OTHERS = 0o077
FREE_BYTES_MIN = 1024**3
FREE_SHARE_MIN = 0.05
SANE_YEARS = range(2025, 2100)
CLOCK_SLACK_MS = 60_000
PENDING_AGE_SECONDS_MAX = 300


class State(StrEnum):
    ok = "ok"
    warning = "warning"
    problem = "problem"


class Finding(NamedTuple):
    subject: str
    state: State
    what: str
    remedy: str = ""


def check_node(settings: Settings) -> Iterator[Finding]:
    folder = DataFolder(settings.data)
    if settings.database is None:
        yield _lock(folder)
    yield _disk(folder)
    if not folder.path.is_dir():
        yield Finding("data folder", State.warning, f"{folder.path} does not exist", "`restante serve` creates it")
        return
    yield _folder_mode(folder)
    yield _master_key(folder, settings)
    yield clock_finding(datetime.now(UTC))
    yield from _database(folder, settings)
    yield from map(_external_outbox, settings.outbox)


def _lock(folder: DataFolder) -> Finding:
    pid = folder.running_pid()
    return Finding("server", State.ok, "not running" if pid is None else f"running as process {pid}")


def _disk(folder: DataFolder) -> Finding:
    place = next(path for path in (folder.path, *folder.path.parents) if path.exists())
    usage = shutil.disk_usage(place)
    return disk_finding(usage.free, usage.total)


def disk_finding(free_bytes: int, total_bytes: int) -> Finding:
    share = free_bytes / total_bytes if total_bytes else 0.0
    what = f"{free_bytes / 1024**3:.1f} GiB free ({share:.0%})"
    if free_bytes < FREE_BYTES_MIN or share < FREE_SHARE_MIN:
        return Finding("disk", State.warning, what, "free some space: a full disk stops every change")
    return Finding("disk", State.ok, what)


def _folder_mode(folder: DataFolder) -> Finding:
    mode = _mode(folder.path)
    if not os.access(folder.path, os.R_OK | os.W_OK | os.X_OK):
        return Finding(
            "data folder",
            State.problem,
            f"{folder.path} is not writable by this user",
            "run as its owner, or change the owner",
        )
    if mode & OTHERS:
        return Finding(
            "data folder",
            State.warning,
            f"{folder.path} has mode {mode:04o}: others can read it",
            f"chmod 700 {folder.path}",
        )
    return Finding("data folder", State.ok, f"{folder.path}, private to its owner")


def _master_key(folder: DataFolder, settings: Settings) -> Finding:
    source = master_key_source(settings)
    try:
        key = _matching_key(folder, settings, source)
    except MasterKeyError as error:
        return Finding("master key", State.problem, error.problem, error.remedy)
    except OSError as error:
        return Finding("master key", State.problem, str(error), "run as its owner, or change the owner")
    if key is None:
        return Finding("master key", State.ok, "not created yet; the server creates it at its first start")
    if len(key.key_ids) > 1:
        what = f"two keys are known: {key.key_id} seals, {', '.join(key.key_ids[1:])} only opens"
        return Finding("master key", State.warning, what, "`restante keys reseal` finishes a change of the master key")
    if settings.master_key is not None:
        return Finding("master key", State.ok, f"given by {VARIABLE}")
    return Finding("master key", State.ok, f"{source.path}, private to its owner")


def _matching_key(folder: DataFolder, settings: Settings, source: MasterKeySource) -> MasterKey | None:
    if not _database_exists(folder, settings):
        return source.find()
    try:
        with _read_only(engine_of(settings)) as conn:
            return signing_keys.matching_master_key(conn, source)
    except DatabaseError:
        # The checks of the database report this.
        return source.find()


def clock_finding(now: datetime) -> Finding:
    what = f"{now:%Y-%m-%d %H:%M:%S}Z"
    if now.year not in SANE_YEARS:
        return Finding("clock", State.problem, f"the system says {what}", "set the clock: tokens depend on it")
    return Finding("clock", State.ok, what)


def _database_exists(folder: DataFolder, settings: Settings) -> bool:
    return settings.database is not None or folder.database_path.exists()


def _database(folder: DataFolder, settings: Settings) -> Iterator[Finding]:
    if not _database_exists(folder, settings):
        try:
            folder.refuse_key_without_database()
            yield Finding("database", State.warning, "not created yet", "`restante serve` creates it")
        except DatabaseError as error:
            yield Finding("database", State.problem, f"{folder.database_path}: {error}")
        return
    try:
        engine = engine_of(settings)
        with _read_only(engine) as conn:
            yield from _shared_findings(conn) if engine.is_shared else _embedded_findings(conn)
    except DatabaseError as error:
        remedy = "restore it from a backup"
        if settings.database is not None:
            remedy = "check that the database server runs, and that the address is right"
        yield Finding("database", State.problem, f"{database_location(settings)}: {error}", remedy)


@contextmanager
def _read_only(engine: Engine) -> Iterator[Connection]:
    conn = engine.connect(writable=False)
    try:
        conn.begin()
        yield conn
    finally:
        conn.close()


def _embedded_findings(conn: Connection) -> Iterator[Finding]:
    yield _integrity(conn)
    yield _journal(conn)
    yield from _content_findings(conn)


def _shared_findings(conn: Connection) -> Iterator[Finding]:
    yield Finding("database", State.ok, "answers")
    if is_new(conn):
        yield Finding("schema", State.warning, "not created yet", "`restante serve` creates it")
    else:
        yield from _content_findings(conn)


def _content_findings(conn: Connection) -> Iterator[Finding]:
    missing = pending(conn)
    if missing:
        names = ", ".join(f"{migration.number:04}_{migration.name}" for migration in missing)
        yield Finding("schema", State.problem, f"lacks {names}", "restart the server")
        return
    yield Finding("schema", State.ok, "up to date")
    yield signal_times_finding(conn)
    yield from outbox_findings(conn)
    yield event_finding(conn)


def _integrity(conn: Connection) -> Finding:
    result = "; ".join(str(row["quick_check"]) for row in conn.all(SQL.quick_check))
    if result != "ok":
        return Finding("database", State.problem, f"damaged: {result}", "restore it from a backup")
    return Finding("database", State.ok, "whole")


def _journal(conn: Connection) -> Finding:
    row = conn.one(SQL.journal_mode)
    mode = row["journal_mode"] if row else "unknown"
    if mode != "wal":
        return Finding("journal", State.problem, f"mode {mode} instead of wal", "restart the server, which sets it")
    return Finding("journal", State.ok, "wal")


def signal_times_finding(conn: Connection) -> Finding:
    row = conn.one(SQL.newest_signal)
    newest_ms = row["newest_ms"] if row else None
    if newest_ms is not None and newest_ms > conn.now_ms + CLOCK_SLACK_MS:
        return Finding(
            "signal times",
            State.warning,
            f"the newest signal has the time {iso_precise(newest_ms)}, in the future: the clock went back",
            "set the clock; signals stay in order meanwhile",
        )
    return Finding("signal times", State.ok, f"newest signal {iso_precise(newest_ms) or 'never'}")


def outbox_findings(conn: Connection) -> Iterator[Finding]:
    counts = outbox.counts(conn)
    failed, waiting = counts["failed"], counts["pending"]
    age_seconds = (counts["oldest_pending_ms"] or 0) // 1000
    if failed:
        yield Finding(
            "outbox",
            State.warning,
            f"{failed} FAILED",
            "list them with `restante outbox list --status FAILED`, then `restante outbox retry --all`",
        )
    if age_seconds > PENDING_AGE_SECONDS_MAX:
        yield Finding(
            "outbox",
            State.warning,
            f"{waiting} waiting, the oldest for {age_seconds} s",
            "is a server running? `restante outbox list --status PENDING` shows why they wait",
        )
    elif not failed:
        yield Finding("outbox", State.ok, f"{waiting} waiting, none failed")


def event_finding(conn: Connection) -> Finding:
    waiting, oldest, errored = signer.count_unsigned(conn), conn.one(SQL.oldest_unsigned), conn.one(SQL.errored_events)
    age_seconds = 0 if oldest is None else (conn.now_ms - oldest["created_at"]) // 1000
    if age_seconds > PENDING_AGE_SECONDS_MAX:
        return Finding(
            "events",
            State.warning,
            f"{waiting} to be signed, the oldest for {age_seconds} s",
            "is a server running? Its log names what cannot be signed",
        )
    if errored is not None and errored["count"]:
        return Finding(
            "events",
            State.warning,
            f"{errored['count']} that clients could not use",
            "list them with `restante event list --status errored`, then `restante event release` or `drop`",
        )
    return Finding("events", State.ok, f"{waiting} to be signed, none errored")


def _external_outbox(address: ExternalAddress) -> Finding:
    subject = f"outbox {address.name}"
    with closing(ExternalDatabase(address)) as source:
        try:
            counts = source.read_now(outbox.counts)
        except DatabaseUnavailable as error:
            return Finding(subject, State.problem, f"cannot be reached: {error}", "its signals wait until it can")
        except DatabaseError as error:
            remedy = "create the table with `restante outbox schema`, and grant the user access to it"
            return Finding(subject, State.problem, f"cannot be read: {error}", remedy)
    if counts["failed"]:
        remedy = f"list them with `restante outbox list --status FAILED --source {address.name}`"
        return Finding(subject, State.warning, f"{counts['failed']} FAILED", remedy)
    return Finding(subject, State.ok, f"{counts['pending']} waiting, none failed")


def check_redis(settings: Settings) -> Iterator[Finding]:
    """Check that Redis is reachable, has a trusted certificate and accepts us. Yield nothing if none is configured."""
    address = settings.redis_url
    if address is None:
        return
    # Imported here because only installations with Redis need its driver.
    from restante.delivery.redis.redis_connection import RedisCommandError, RedisUnavailable
    from restante.delivery.redis.redis_servers import RedisServers

    try:
        masters = asyncio.run(RedisServers(address).probe())
    except RedisUnavailable as error:
        remedy = "check that it runs, and that address and certificates are right; the server does without it"
        yield Finding("redis", State.problem, f"{address} cannot be reached: {error}", remedy)
    except RedisCommandError as error:
        yield Finding("redis", State.problem, f"{address} refuses: {error}", "check user and password")
    else:
        yield Finding("redis", State.ok, f"{address} answers" + (f", {masters} masters" if masters > 1 else ""))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
