"""Proving the audit trail unbroken, or naming the first row that is not: the live table, or an export without it.

    chain 0 first: it tells which chains were opened, each once
    each chain:    rows 1, 2, 3 … without a gap, each hash over the row and the hash before it
    its end:       the signed checkpoint names the newest row and its hash

So a row that was changed, put in, moved or deleted shows, the newest rows and whole chains included. What cannot show
in the table itself is an older state of all of it put back; that shows against a later export, whose checkpoints are
given as `anchors`.

The live table is read in steps, each on a snapshot of its own, so that a long trail does not hold one open. A chain's
end and its checkpoint are always of one snapshot.
"""

import hmac
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from restante.commands.audit import CHAIN_OPENED, NO_HASH, ROOT_CHAIN, AuditRow, Checkpoint
from restante.commands.audit_export import ExportHeader, exported_row, signed_checkpoint
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

STEP_ROWS = 5000


class Broken(msgspec.Struct, frozen=True):
    """The first row that is not what it was, or not there."""

    chain: int
    n: int
    reason: str


class Verdict(msgspec.Struct):
    intact: bool
    chains: int
    rows: int
    broken: Broken | None = None

    @property
    def sentence(self) -> str:
        if self.broken is None:
            return f"The audit trail is unbroken: {self.rows} rows in {self.chains} chains."
        return f"The audit trail is broken at row {self.broken.n} of chain {self.broken.chain}: {self.broken.reason}."


class ChainBroken(Exception):
    def __init__(self, chain: int, n: int, reason: str) -> None:
        super().__init__(reason)
        self.broken = Broken(chain, n, reason)


class ChainCheck:
    """One chain, row after row."""

    def __init__(self, mac: KeyedHash, chain: int) -> None:
        self.chain = chain
        self.n = 0
        self._mac = mac
        self._hash = NO_HASH

    def take(self, row: AuditRow, stored_hash: bytes) -> None:
        if row.chain != self.chain or row.n != self.n + 1:
            self._break("the row is missing")
        if not hmac.compare_digest(row.hash_after(self._mac, self._hash), stored_hash):
            self._break("the row is not what was written, or does not follow the one before it")
        self.n, self._hash = row.n, stored_hash

    def finish(self, checkpoint: Checkpoint | None) -> None:
        """The chain's checkpoint, its signature already checked, must be where the rows end."""
        if checkpoint is None:
            raise ChainBroken(self.chain, max(1, self.n), "the chain's checkpoint is missing or not ours")
        if checkpoint.n > self.n:
            self._break(f"the newest rows, up to {checkpoint.n}, are missing")
        if checkpoint.n < self.n:
            raise ChainBroken(self.chain, checkpoint.n + 1, "the row lies beyond the chain's checkpoint")
        if not hmac.compare_digest(checkpoint.hash, self._hash):
            raise ChainBroken(self.chain, max(1, self.n), "the row is not the one that the checkpoint names")

    def _break(self, reason: str) -> None:
        raise ChainBroken(self.chain, self.n + 1, reason)


class Openings:
    """Which chains the root chain says were opened."""

    def __init__(self) -> None:
        self.chains: set[int] = set()

    def take(self, row: AuditRow) -> None:
        if row.event != CHAIN_OPENED:
            return
        chain = msgspec.json.decode(row.detail)["chain"]
        if chain in self.chains:
            raise ChainBroken(chain, 1, f"the chain was started anew: row {row.n} of chain 0 opens it again")
        self.chains.add(chain)


class LiveVerification:
    """The live table, in steps: `while verification.step(conn): …`, then the verdict."""

    def __init__(self, mac: KeyedHash, anchors: Sequence[Checkpoint] = ()) -> None:
        self._mac = mac
        self._anchors = anchors
        self._openings = Openings()
        self._check = ChainCheck(mac, ROOT_CHAIN)
        self._to_do: deque[int] = deque()
        self.verdict = Verdict(True, 0, 0)

    def step(self, conn: Connection) -> bool:
        """Verify some more; whether there is still more to verify."""
        try:
            return self._step(conn)
        except ChainBroken as found:
            self.verdict.intact, self.verdict.broken = False, found.broken
            return False

    def _step(self, conn: Connection) -> bool:
        check = self._check
        rows = conn.all(SQL.rows_after, chain=check.chain, n=check.n, limit=STEP_ROWS)
        for row in rows:
            audited = _audited(row)
            check.take(audited, row["hash"])
            if check.chain == ROOT_CHAIN:
                self._openings.take(audited)
        self.verdict.rows += len(rows)
        if len(rows) == STEP_ROWS:
            return True
        self._finish_chain(conn)
        if self._to_do:
            self._check = ChainCheck(self._mac, self._to_do.popleft())
            return True
        self._check_anchors(conn)
        return False

    def _finish_chain(self, conn: Connection) -> None:
        chain = self._check.chain
        if chain == ROOT_CHAIN:
            self._to_do.extend(self._other_chains(conn))
            if self._check.n == 0 and not self._to_do and conn.one(SQL.checkpoint, chain=chain) is None:
                # Nothing has ever been recorded.
                return
        self._check.finish(_live_checkpoint(conn, self._mac, chain))
        self.verdict.chains += 1

    def _other_chains(self, conn: Connection) -> list[int]:
        """Every chain there is or should be, in the snapshot in which the root chain ended."""
        there = {row["chain"] for row in conn.all(SQL.chains, root=ROOT_CHAIN)}
        for chain in sorted(there - self._openings.chains):
            raise ChainBroken(chain, 1, "chain 0 does not know of the chain")
        return sorted(self._openings.chains)

    def _check_anchors(self, conn: Connection) -> None:
        for anchor in self._anchors:
            row = conn.one(SQL.hash_of_row, chain=anchor.chain, n=anchor.n)
            if row is None or row["hash"] != anchor.hash:
                raise ChainBroken(anchor.chain, anchor.n, "the row is not the one that was exported")


def verify_export(lines: Iterable[bytes], mac: KeyedHash) -> Verdict:
    """The verdict on an exported file, given line by line; BadInput if it is no export."""
    verdict = Verdict(True, 0, 0)
    remaining = iter(lines)
    try:
        checkpoints = deque(checked_header(next(remaining, b""), mac))
        check: ChainCheck | None = None
        for line in remaining:
            row, stored_hash = exported_row(line, f"line {verdict.rows + 2}")
            while check is None or row.chain != check.chain:
                check = _next_chain(mac, check, checkpoints, row)
                verdict.chains += 1
            check.take(row, stored_hash)
            verdict.rows += 1
        _finish_export(mac, check, checkpoints)
    except ChainBroken as found:
        verdict.intact, verdict.broken = False, found.broken
    return verdict


def checked_header(line: bytes, mac: KeyedHash) -> list[Checkpoint]:
    """The checkpoints that an export begins with; ChainBroken if they are not as they were written."""
    header = ExportHeader.read(line)
    if not header.is_ours(mac):
        raise ChainBroken(ROOT_CHAIN, 0, "the export's first line is not as it was written, or made with another key")
    return [each.checkpoint() for each in header.checkpoints]


def _next_chain(mac: KeyedHash, check: ChainCheck | None, checkpoints: deque[Checkpoint], row: AuditRow) -> ChainCheck:
    if check is not None:
        check.finish(checkpoints.popleft())
    if not checkpoints:
        raise ChainBroken(row.chain, row.n, "the export's first line does not know of the chain")
    return ChainCheck(mac, checkpoints[0].chain)


def _finish_export(mac: KeyedHash, check: ChainCheck | None, checkpoints: deque[Checkpoint]) -> None:
    if check is not None:
        check.finish(checkpoints.popleft())
    for checkpoint in checkpoints:
        ChainCheck(mac, checkpoint.chain).finish(checkpoint)


def _live_checkpoint(conn: Connection, mac: KeyedHash, chain: int) -> Checkpoint | None:
    row = conn.one(SQL.checkpoint, chain=chain)
    if row is None:
        return None
    found = signed_checkpoint(row)
    return found.checkpoint() if found.is_ours(mac) else None


def _audited(row: Row) -> AuditRow:
    return AuditRow(**{name: row[name] for name in AuditRow.__struct_fields__})


def open_export(lines: Iterable[bytes], mac: KeyedHash) -> Sequence[Checkpoint]:
    """The checkpoints of an export, to hold the live table against."""
    try:
        return checked_header(next(iter(lines), b""), mac)
    except ChainBroken as broken:
        raise BadInput("export", f"an export as it was written ({broken})") from None
