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
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from restante.commands.queue import SITE_LOCK
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

KEY_PURPOSE = "audit"
ROOT_CHAIN = 0
CHAIN_OPENED = "chain.opened"
NO_HASH = bytes(hashlib.sha256().digest_size)
# A checkpoint is a row that is changed in place until its chain has so many rows more; then it is another row. As many
# versions of it are read through at most where a transaction that somebody left open keeps them all.
PART_ROWS = 64

_details = msgspec.json.Encoder(order="sorted")
_rows = msgspec.json.Encoder()


class AuditEntry(msgspec.Struct, frozen=True):
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


class Checkpoint(msgspec.Struct, frozen=True):
    """How far a chain goes, and where it is then."""

    chain: int
    n: int
    hash: bytes
    at: int

    def signature(self, mac: KeyedHash) -> bytes:
        return mac.digest(b"checkpoint\0%d\0%d\0%d\0%b" % (self.chain, self.n, self.at, self.hash))


class _End(msgspec.Struct, frozen=True):
    """Where a chain ends: its newest row's number and hash."""

    n: int
    hash: bytes

    @property
    def part(self) -> int:
        return self.n // PART_ROWS


Ends = Callable[[], dict[int, _End]]


class AuditTrail:
    """Writes the trail; its key is derived from the master key for this purpose alone."""

    def __init__(self, key: bytes) -> None:
        self.mac = KeyedHash(key)
        # Where each chain ended when this process last wrote to it: a checkpoint that says the same needs no proof.
        self._ends: dict[int, _End] = {}

    def record(self, conn: Connection, entry: AuditEntry) -> None:
        self.record_all(conn, (entry,))

    def record_all(self, conn: Connection, entries: Sequence[AuditEntry], looked: Ends | None = None) -> None:
        """Several entries, of any chains, in their order: one checkpoint for each chain instead of one for each row.
        `looked`: what `look` gave for these chains, to which nothing was written since."""
        chains = {entry.chain for entry in entries}
        conn.lock(SITE_LOCK, *chains)
        ends = self._opened(conn, chains, (looked or self.look(conn, chains))())
        now_ms, mac, before = conn.now_ms, self.mac, ends.copy()
        rows = []
        for entry in entries:
            chain, actor, event, command_id = entry.chain, entry.actor, entry.event, entry.command_id
            from_state, to_state, detail = entry.from_state, entry.to_state, _details.encode(entry.detail).decode()
            end = ends[chain]
            n = end.n + 1
            row = AuditRow(actor, now_ms, chain, command_id, detail, event, from_state, n, to_state)
            row_hash = row.hash_after(mac, end.hash)
            rows.append((chain, n, now_ms, actor, event, command_id, from_state, to_state, detail, row_hash))
            ends[chain] = _End(n, row_hash)
        conn.run_rows(SQL.insert_row, rows)
        conn.run_rows(
            SQL.put_checkpoint,
            [
                (chain, end.part, end.n, end.hash, now_ms, Checkpoint(chain, end.n, end.hash, now_ms).signature(mac))
                for chain, end in ends.items()
            ],
        )
        conn.run_rows(
            SQL.drop_checkpoint, [(chain, end.part) for chain, end in before.items() if end.part != ends[chain].part]
        )
        self._ends.update(ends)

    def look(self, conn: Connection, chains: Collection[int]) -> Ends:
        """Where the chains end, of those that have a checkpoint of ours; read now, told when called for."""
        found = conn.values_later(SQL.checkpoints, chains=_rows.encode(sorted(chains)).decode())
        return lambda: {
            chain: end
            for chain, n, row_hash, at, signature in found()
            if (end := _End(n, row_hash)) == self._ends.get(chain)
            or hmac.compare_digest(Checkpoint(chain, n, row_hash, at).signature(self.mac), signature)
        }

    def _opened(self, conn: Connection, chains: set[int], found: dict[int, _End]) -> dict[int, _End]:
        """Where each of the chains ends, now that all are open."""
        ends = {chain: found[chain] for chain in chains if chain in found}
        opened = {chain: self._open(conn, chain) for chain in sorted(chains - ends.keys() - {ROOT_CHAIN})}
        if ROOT_CHAIN in chains and opened:
            # They were opened in it.
            ends |= self._opened(conn, {ROOT_CHAIN}, self.look(conn, {ROOT_CHAIN})())
        elif ROOT_CHAIN in chains - ends.keys():
            ends[ROOT_CHAIN] = self._open(conn, ROOT_CHAIN)
        return ends | opened

    def _open(self, conn: Connection, chain: int) -> _End:
        """Start a chain. Behind rows that have lost their checkpoint, the new start shows that something is wrong."""
        if chain != ROOT_CHAIN:
            self.record(conn, AuditEntry(ROOT_CHAIN, "restante", CHAIN_OPENED, None, None, None, {"chain": chain}))
        conn.run_rows(SQL.drop_checkpoints, [(chain,)])
        newest = conn.one(SQL.newest_row, chain=chain)
        return _End(0 if newest is None else newest["n"], NO_HASH)
