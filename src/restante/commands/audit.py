"""The audit trail: every change of a command, every refused ACK, every secret that was shown, as rows of a chain.

    row n:      hash = HMAC(key, hash of row n - 1 · canonical JSON of row n)
    checkpoint: chain, n and hash of its newest row, signed with the same key

One chain for each site; chain 0 holds what belongs to no site, and tells which chains were opened. A row is written
in the transaction of what it tells about. Knows nothing of who may read it; `audit_verify` proves it unbroken.

Must always hold: whoever changes, inserts, moves or deletes rows without the key leaves a trail that cannot be
verified, and this module never mends it: where the checkpoint is gone or not ours, the next row starts from nothing.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection
from restante.database.queries import Query, queries_beside

SQL = queries_beside(__file__)

KEY_PURPOSE = "audit"
ROOT_CHAIN = 0
CHAIN_OPENED = "chain.opened"
NO_HASH = bytes(hashlib.sha256().digest_size)

_details = msgspec.json.Encoder(order="sorted")
_rows = msgspec.json.Encoder()


class AuditEntry(NamedTuple):
    """What happened, before it has its place in a chain."""

    chain: int
    actor: str
    event: str
    command_id: str | None
    from_state: str | None
    to_state: str | None
    detail: dict[str, Any]


class AuditRow(msgspec.Struct, frozen=True):
    """A row as it is hashed: its fields stand in the order of their names, which makes its JSON canonical."""

    actor: str
    at: int
    chain: int
    command_id: str | None
    detail: str
    event: str
    from_state: str | None
    n: int
    to_state: str | None

    def hash_after(self, mac: KeyedHash, before: bytes) -> bytes:
        return mac.digest(before + _rows.encode(self))


class Checkpoint(NamedTuple):
    """How far a chain goes, and where it is then."""

    chain: int
    n: int
    hash: bytes
    at: int

    def signature(self, mac: KeyedHash) -> bytes:
        return mac.digest(b"checkpoint\0%d\0%d\0%d\0%b" % (self.chain, self.n, self.at, self.hash))


class _End(NamedTuple):
    """Where a chain ends: its newest row's number and hash."""

    n: int
    hash: bytes


class AuditTrail:
    """Writes the trail; its key is derived from the master key for this purpose alone."""

    def __init__(self, key: bytes) -> None:
        self.mac = KeyedHash(key)
        # Where each chain ended when this process last wrote to it. A guess, which spares reading the checkpoint: the
        # database says whether it holds, after a rollback or another process's writing it does not.
        self._ends: dict[int, _End] = {}

    def record(self, conn: Connection, entry: AuditEntry) -> None:
        self.record_all(conn, entry.chain, (entry,))

    def record_all(self, conn: Connection, chain: int, entries: Sequence[AuditEntry]) -> None:
        """Several entries of one chain, in their order, for little more than the price of one."""
        known = self._ends.get(chain)
        if known is None or not self._append(conn, SQL.move_checkpoint, known, chain, entries):
            self._append(conn, SQL.put_checkpoint, self._newest(conn, chain), chain, entries)

    def _append(
        self, conn: Connection, put_checkpoint: Query, end: _End, chain: int, entries: Sequence[AuditEntry]
    ) -> bool:
        """Write the entries behind that end; False, and nothing, if the chain does not end there."""
        n, before, now_ms = end.n, end.hash, conn.now_ms
        rows = []
        for entry in entries:
            n += 1
            row = _placed(entry, n, now_ms)
            before = row.hash_after(self.mac, before)
            rows.append((row, before))
        checkpoint = Checkpoint(chain, n, before, now_ms)
        written = conn.run(
            put_checkpoint,
            chain=chain,
            n=n,
            hash=before,
            at=now_ms,
            signature=checkpoint.signature(self.mac),
            end_n=end.n,
            end_hash=end.hash,
        )
        if not written:
            return False
        for row, row_hash in rows:
            conn.run(SQL.insert_row, hash=row_hash, **msgspec.structs.asdict(row))
        self._ends[chain] = _End(n, before)
        return True

    def _newest(self, conn: Connection, chain: int) -> _End:
        found = conn.one(SQL.checkpoint, chain=chain)
        if found is not None:
            checkpoint = Checkpoint(chain, found["n"], found["hash"], found["at"])
            if hmac.compare_digest(checkpoint.signature(self.mac), found["signature"]):
                return _End(checkpoint.n, checkpoint.hash)
        return self._open(conn, chain)

    def _open(self, conn: Connection, chain: int) -> _End:
        """Start a chain. Behind rows that have lost their checkpoint, the new start shows that something is wrong."""
        if chain != ROOT_CHAIN:
            self.record(conn, AuditEntry(ROOT_CHAIN, "restante", CHAIN_OPENED, None, None, None, {"chain": chain}))
        newest = conn.one(SQL.newest_row, chain=chain)
        return _End(0 if newest is None else newest["n"], NO_HASH)


def _placed(entry: AuditEntry, n: int, now_ms: int) -> AuditRow:
    return AuditRow(
        actor=entry.actor,
        at=now_ms,
        chain=entry.chain,
        command_id=entry.command_id,
        detail=_details.encode(entry.detail).decode(),
        event=entry.event,
        from_state=entry.from_state,
        n=n,
        to_state=entry.to_state,
    )
