"""The audit trail: every change of a command, every refused ACK and every shown secret is a row of a hash chain.

    row n:      hash = HMAC(key, hash of row n - 1 · canonical JSON of row n)
    checkpoint: chain, n and hash of its newest row, signed with the same key

Each site has a chain. Chain 0 has the rows that belong to no site. It records the start of every other chain and, from
time to time, its head (`chain_heads`). A row is written in the transaction of the change that it records. This module
checks no permissions; `audit_verify` verifies the trail.

Invariants: if rows are changed, inserted, moved or deleted without the key, the trail does not verify any more, and
this module never repairs it. If a checkpoint is missing, not authentic or lower than one that this process has seen,
the next row starts from an empty hash.
"""

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

KEY_PURPOSE = "audit"
ROOT_CHAIN = 0
CHAIN_OPENED = "chain.opened"
NO_HASH = bytes(hashlib.sha256().digest_size)
# A checkpoint is updated in place for this many rows of its chain, then a new row replaces it. This bounds the row
# versions that a read steps over while an open transaction keeps them all.
PART_ROWS = 64

_details = msgspec.json.Encoder(order="sorted")
_rows = msgspec.json.Encoder()


class AuditEntry(msgspec.Struct, frozen=True):
    """A record that has no place in a chain yet."""

    chain: int
    actor: str
    event: str
    command_id: str | None
    from_state: str | None
    to_state: str | None
    detail: dict[str, Any]


class AuditRow(msgspec.Struct, frozen=True):
    """A row as it is hashed. Its fields are in alphabetical order, which makes its JSON canonical."""

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
    """The number and hash of the newest row of a chain."""

    chain: int
    n: int
    hash: bytes
    at: int

    def signature(self, mac: KeyedHash) -> bytes:
        return mac.digest(b"checkpoint\0%d\0%d\0%d\0%b" % (self.chain, self.n, self.at, self.hash))


class _ChainEnd(msgspec.Struct, frozen=True):
    """The number and hash of the newest row, without the time of the checkpoint."""

    n: int
    hash: bytes

    @property
    def part(self) -> int:
        return self.n // PART_ROWS


ChainEnds = Callable[[], dict[int, _ChainEnd]]


class AuditTrail:
    """Writes the trail. Its key is derived from the master key for this purpose only."""

    def __init__(self, key: bytes) -> None:
        self.mac = KeyedHash(key)
        # The ends after the last write of this process. A checkpoint that equals one needs no signature check.
        self._ends: dict[int, _ChainEnd] = {}
        # The lowest number that a checkpoint of each chain may have.
        self._lowest: dict[int, int] = {}

    @property
    def written_chains(self) -> Collection[int]:
        return self._ends.keys()

    def refuse_below(self, numbers: Mapping[int, int]) -> None:
        """Never follow a checkpoint with a lower number: the database had these rows, so the chain was set back."""
        self._lowest.update(numbers)

    def is_authentic(self, checkpoint: Checkpoint, signature: bytes) -> bool:
        return hmac.compare_digest(checkpoint.signature(self.mac), signature)

    def record(self, conn: Connection, entry: AuditEntry) -> None:
        self.record_all(conn, (entry,))

    def record_all(self, conn: Connection, entries: Sequence[AuditEntry], ends_read: ChainEnds | None = None) -> None:
        """Record several entries of any chains, in their order, with one checkpoint per chain.

        `ends_read`: the result of `prefetch_ends` for these chains, if nothing was written to them since.
        """
        chains = {entry.chain for entry in entries}
        conn.lock(SITE_LOCK, *chains)
        ends = self._open_missing(conn, chains, (ends_read or self.prefetch_ends(conn, chains))())
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
            ends[chain] = _ChainEnd(n, row_hash)
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

    def prefetch_ends(self, conn: Connection, chains: Collection[int]) -> ChainEnds:
        """Start to read the ends of the chains. The returned function yields those with an authentic checkpoint."""
        found = conn.prefetch(SQL.checkpoints, chains=_rows.encode(sorted(chains)).decode())
        return lambda: {
            chain: end
            for chain, n, row_hash, at, signature in found()
            if n >= self._lowest.get(chain, 0)
            and (
                (end := _ChainEnd(n, row_hash)) == self._ends.get(chain)
                or self.is_authentic(Checkpoint(chain, n, row_hash, at), signature)
            )
        }

    def _open_missing(self, conn: Connection, chains: set[int], found: dict[int, _ChainEnd]) -> dict[int, _ChainEnd]:
        """Open the chains that have no authentic end. Return the ends of all."""
        ends = {chain: found[chain] for chain in chains if chain in found}
        opened = {chain: self._open(conn, chain) for chain in sorted(chains - ends.keys() - {ROOT_CHAIN})}
        if ROOT_CHAIN in chains and opened:
            # Opening the others has written rows to the root chain.
            ends |= self._open_missing(conn, {ROOT_CHAIN}, self.prefetch_ends(conn, {ROOT_CHAIN})())
        elif ROOT_CHAIN in chains - ends.keys():
            ends[ROOT_CHAIN] = self._open(conn, ROOT_CHAIN)
        return ends | opened

    def _open(self, conn: Connection, chain: int) -> _ChainEnd:
        """Start a chain. If it already has rows but lost its checkpoint, the second start reveals the tampering."""
        if chain != ROOT_CHAIN:
            self.record(conn, AuditEntry(ROOT_CHAIN, "restante", CHAIN_OPENED, None, None, None, {"chain": chain}))
        conn.run_rows(SQL.drop_checkpoints, [(chain,)])
        newest = conn.one(SQL.newest_row, chain=chain)
        return _ChainEnd(0 if newest is None else newest["n"], NO_HASH)
