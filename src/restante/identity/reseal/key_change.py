"""A change of the master key, as the database records it.

    announced ── every server knows both keys ──▶ sealing ── every value is under the new key ──▶ finished
    servers seal with the old key, open with both   servers seal with the new key, open with both

At most one change is unfinished. Of an announced change, the new key may still be replaced: nothing is sealed with it.
From `start_sealing` on, the keys that were derived from the first master key are stored, so that audit trail, refresh
tokens and all other keyed digests stay valid under any later master key.

A server process writes which keys it knows (`report`): when it starts, and every few seconds while the key changes. A
process that has not written for `SILENT_SECONDS` of a change is not connected to the database. When it connects again,
it reads the state of the change first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from restante.core.errors import Conflict
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

REPORT_SECONDS = 2.0
SILENT_SECONDS = 20

_LOCK = "master key"
_encode = msgspec.json.encode


class MasterKeyChanging(ClusterMessage, frozen=True, tag="master key"):
    """The state of the change of the master key is another one."""

    needs_catch_up: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class KeyChange:
    id: int
    old_key_id: str
    new_key_id: str
    is_sealing: bool
    started_at: int
    finished_at: int | None

    @property
    def sealing_id(self) -> str:
        """The id of the key that seals now."""
        return self.new_key_id if self.is_sealing else self.old_key_id


@dataclass(frozen=True, slots=True)
class Holder:
    """A server process. `host` names its machine and its process id, as in the list of nodes."""

    process: str
    host: str


def newest(conn: Connection) -> KeyChange | None:
    row = conn.one(SQL.newest)
    return None if row is None else _change(row)


def unfinished(conn: Connection) -> KeyChange | None:
    found = newest(conn)
    return None if found is None or found.finished_at is not None else found


def announce(conn: Connection, old_key_id: str, new_key_id: str) -> KeyChange:
    """Begin the change, or continue it. Raises Conflict if a change to another key is on its way."""
    conn.lock(_LOCK, 0)
    found = unfinished(conn)
    if found is not None and found.new_key_id != new_key_id:
        if found.is_sealing:
            raise Conflict(
                f"values are already sealed with the new master key {found.new_key_id}, and the given one is "
                f"{new_key_id}: put the key {found.new_key_id} in its place, and reseal again to finish the change"
            )
        conn.run(SQL.forget, id=found.id)
        found = None
    if found is None:
        row = conn.one(SQL.announce, old_key_id=old_key_id, new_key_id=new_key_id, now_ms=conn.now_ms)
        assert row is not None  # noqa: S101 — an INSERT with RETURNING returns its row or raises
        found = _change(row)
    conn.add_commit_event(MasterKeyChanging())
    return found


def start_sealing(conn: Connection, change: KeyChange, sealed_derived: Mapping[str, bytes]) -> None:
    """Let the servers seal with the new key. `sealed_derived`: derived keys that are stored if they are not yet."""
    conn.lock(_LOCK, 0)
    for purpose, sealed_key in sealed_derived.items():
        conn.run(SQL.store_derived, purpose=purpose, sealed_key=sealed_key)
    conn.run(SQL.start_sealing, id=change.id)
    conn.add_commit_event(MasterKeyChanging())


def finish(conn: Connection, change: KeyChange) -> None:
    """Record that no value is left under the old key."""
    conn.lock(_LOCK, 0)
    conn.run(SQL.finish, id=change.id, now_ms=conn.now_ms)
    conn.add_commit_event(MasterKeyChanging())


def forget_lost_key(conn: Connection) -> None:
    """The master key is lost: so are the derived keys and an unfinished change."""
    conn.run(SQL.forget_derived)
    conn.run(SQL.forget_unfinished)


def stored_derived_keys(conn: Connection, master: MasterKey) -> dict[str, bytes]:
    """The derived keys by purpose; empty before the first change of the master key."""
    rows = conn.all(SQL.derived_keys)
    return {row["purpose"]: master.open(row["sealed_key"], derived_purpose(row["purpose"])) for row in rows}


def derived_purpose(purpose: str) -> str:
    """The purpose under which the derived key of a purpose is sealed."""
    return f"derived key {purpose}"


def report(conn: Connection, holder: Holder, master: MasterKey) -> None:
    """Record which keys a server process knows."""
    conn.run(
        SQL.report,
        process=holder.process,
        host=holder.host,
        key_ids=_encode(master.key_ids).decode(),
        seals_with=master.key_id,
        now_ms=conn.now_ms,
    )


def remove(conn: Connection, holder: Holder) -> None:
    conn.run(SQL.remove, process=holder.process)


def remove_others(conn: Connection, holder: Holder) -> None:
    """Remove the rows of all other processes; for an engine that one process uses alone."""
    conn.run(SQL.remove_others, process=holder.process)


def unready_hosts(conn: Connection, change: KeyChange) -> list[str]:
    """The servers that do not know the new key yet; while values are sealed, those that do not seal with it yet."""
    # A process that started before the change has as long to report as one that was just started.
    since = conn.now_ms - SILENT_SECONDS * 1000
    alive = [row for row in conn.all(SQL.holders) if max(row["reported_at"], change.started_at) > since]
    reported = {row["host"] for row in alive}
    unready = [row["host"] for row in alive if not _is_ready(row, change)]
    # A server of an older version reports nothing.
    older = [row["host"] for row in conn.all(SQL.running_nodes, since=since) if row["host"] not in reported]
    return sorted({*unready, *older})


def _is_ready(row: Row, change: KeyChange) -> bool:
    if change.is_sealing:
        return bool(row["seals_with"] == change.new_key_id)
    return change.new_key_id in msgspec.json.decode(row["key_ids"], type=list[str])


def _change(row: Row) -> KeyChange:
    return KeyChange(
        row["id"],
        row["old_key_id"],
        row["new_key_id"],
        bool(row["is_sealing"]),
        row["started_at"],
        row["finished_at"],
    )
