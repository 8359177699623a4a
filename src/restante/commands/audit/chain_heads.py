"""The main chain: chain 0 records the heads of all other chains, so that none of them can be set back alone.

    chain 7:  … 41 · 42 · 43        chain 9:  … 12
                     └──────────┐              │
    chain 0:  … 88 · 89 audit.heads {"heads": [[7, 43, hash], [9, 12, hash]]}   ← the number 89 only grows

A head is the number of the newest row of a chain, with the first half of its hash. Rows of chain 0 are hashed like all
others, so a recorded head is signed. Only heads that have changed since the last record are listed.

This module does not decide when heads are recorded (`heads_recorder`), and it verifies nothing (`audit_verify`).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import msgspec

from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditRow, AuditTrail, Checkpoint
from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

ACTOR = "restante"
HEADS_RECORDED = "audit.heads"
SET_BACK = "audit.set_back"
HASH_CHARACTERS = 32


class Head(NamedTuple):
    n: int
    hash: str


Heads = Mapping[int, Head]


def hash_text(row_hash: bytes) -> str:
    return row_hash.hex()[:HASH_CHARACTERS]


def read_heads(conn: Connection, trail: AuditTrail) -> dict[int, Head]:
    """The heads of all chains but chain 0. Checkpoints that are not authentic are left out."""
    return {
        row["chain"]: Head(row["n"], hash_text(row["hash"]))
        for row in conn.all(SQL.newest_checkpoints, root=ROOT_CHAIN)
        if trail.is_authentic(Checkpoint(row["chain"], row["n"], row["hash"], row["at"]), row["signature"])
    }


def record_heads(
    conn: Connection, trail: AuditTrail, known: Heads, recent_ms: int = 0, own_row: int | None = None
) -> tuple[Heads, int | None]:
    """Record the heads that differ from the known ones, and each known head whose row is gone or another one.

    Records nothing if another process has done so within `recent_ms`. Returns the heads that are now known, and the
    number of the last row of chain 0 that this process wrote (`own_row` before).
    """
    conn.lock(SITE_LOCK, ROOT_CHAIN)
    last = conn.one(SQL.last_record, root=ROOT_CHAIN, event=HEADS_RECORDED)
    if last is not None and last["n"] != own_row and last["at"] > conn.now_ms - recent_ms:
        return known, own_row
    heads = read_heads(conn, trail)
    changed = {chain: head for chain, head in heads.items() if known.get(chain) != head}
    moved = {chain: head for chain, head in known.items() if heads.get(chain) != head}
    entries = [
        AuditEntry(ROOT_CHAIN, ACTOR, SET_BACK, None, None, None, {"chain": chain, "n": head.n})
        for chain, head in missing_heads(conn, sorted(moved.items()))
    ]
    if changed:
        listed = [[chain, *head] for chain, head in sorted(changed.items())]
        entries.append(AuditEntry(ROOT_CHAIN, ACTOR, HEADS_RECORDED, None, None, None, {"heads": listed}))
    if not entries:
        return heads, own_row
    trail.record_all(conn, entries)
    written = conn.one(SQL.last_record, root=ROOT_CHAIN, event=HEADS_RECORDED)
    return heads, own_row if written is None else written["n"]


def root_checkpoint(conn: Connection) -> tuple[Checkpoint, bytes] | None:
    """The checkpoint of chain 0 with its signature."""
    row = conn.one(SQL.root_checkpoint, root=ROOT_CHAIN)
    if row is None:
        return None
    return Checkpoint(ROOT_CHAIN, row["n"], row["hash"], row["at"]), row["signature"]


def has_row(conn: Connection, checkpoint: Checkpoint) -> bool:
    """Whether the chain still has the row that the checkpoint names."""
    row = conn.one(SQL.hash_of_row, chain=checkpoint.chain, n=checkpoint.n)
    return row is not None and row["hash"] == checkpoint.hash


def recorded_heads(row: AuditRow) -> Iterator[tuple[int, Head]]:
    """The heads that a row of chain 0 records."""
    if row.event == HEADS_RECORDED:
        for chain, n, text in msgspec.json.decode(row.detail)["heads"]:
            yield chain, Head(n, text)


def missing_heads(conn: Connection, heads: Collection[tuple[int, Head]]) -> list[tuple[int, Head]]:
    """The heads whose row is gone or is another one. Reads all rows at once."""
    found = [conn.prefetch(SQL.hash_of_row, chain=chain, n=head.n) for chain, head in heads]
    return [
        (chain, head)
        for (chain, head), rows in zip(heads, found, strict=True)
        if [hash_text(row_hash) for (row_hash,) in rows()] != [head.hash]
    ]
