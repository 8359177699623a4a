"""Verification of the audit trail, in the live table or in an export. It finds the first broken row.

    chain 0 first: it lists the chains that were opened, each once
    each chain:    rows 1, 2, 3 … without a gap; each hash covers the row and the previous hash
    its end:       the signed checkpoint has the number and hash of the newest row
    its heads:     each head that chain 0 has recorded is a row of the chain
    anchors:       each checkpoint that is known from elsewhere (an export, a signed head) is a row of its chain

So verification detects rows that were changed, inserted, moved or deleted, including the newest rows and whole chains,
and a chain that was set back. The table alone cannot show that all chains, with chain 0, were set back together to one
moment. An anchor of a later moment can.

The live table is read in steps, each in its own snapshot, so that a long trail does not keep one open. The end of a
chain and its checkpoint always come from one snapshot.
"""

import hmac
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from restante.commands.audit.audit_export import ExportHeader, parse_row, signed_checkpoint_of
from restante.commands.audit.audit_trail import CHAIN_OPENED, NO_HASH, ROOT_CHAIN, AuditRow, Checkpoint
from restante.commands.audit.chain_heads import SET_BACK, Head, hash_text, missing_heads, recorded_heads
from restante.commands.audit.signed_heads import is_head, verified_head
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Bounds the memory of a step: a row may have two snapshots of 64 KiB.
STEP_ROWS = 200


class BrokenRow(msgspec.Struct, frozen=True):
    """The first row that was changed or is missing."""

    chain: int
    n: int
    reason: str


class ChainVerdict(msgspec.Struct):
    intact: bool
    chains: int
    rows: int
    broken: BrokenRow | None = None

    @property
    def sentence(self) -> str:
        if self.broken is None:
            return f"The audit trail is unbroken: {self.rows} rows in {self.chains} chains."
        return f"The audit trail is broken at row {self.broken.n} of chain {self.broken.chain}: {self.broken.reason}."


class ChainBroken(Exception):
    def __init__(self, chain: int, n: int, reason: str) -> None:
        super().__init__(reason)
        self.broken = BrokenRow(chain, n, reason)


class ChainCheck:
    """Checks one chain, row by row."""

    def __init__(self, mac: KeyedHash, chain: int) -> None:
        self.chain = chain
        self.n = 0
        self._mac = mac
        self._hash = NO_HASH

    def add(self, row: AuditRow, stored_hash: bytes) -> None:
        if row.chain != self.chain or row.n != self.n + 1:
            self._fail("the row is missing")
        if not hmac.compare_digest(row.hash_after(self._mac, self._hash), stored_hash):
            self._fail("the row is not what was written, or does not follow the one before it")
        self.n, self._hash = row.n, stored_hash

    def finish(self, checkpoint: Checkpoint | None) -> None:
        """Check that the rows end at the checkpoint, whose signature is already verified."""
        if checkpoint is None:
            raise ChainBroken(self.chain, max(1, self.n), "the chain's checkpoint is missing or not authentic")
        if checkpoint.n > self.n:
            self._fail(f"the newest rows, up to {checkpoint.n}, are missing")
        if checkpoint.n < self.n:
            raise ChainBroken(self.chain, checkpoint.n + 1, "the row lies beyond the chain's checkpoint")
        if not hmac.compare_digest(checkpoint.hash, self._hash):
            raise ChainBroken(self.chain, max(1, self.n), "the row is not the one that the checkpoint names")

    def _fail(self, reason: str) -> None:
        raise ChainBroken(self.chain, self.n + 1, reason)


class OpenedChains:
    """The chains that the root chain lists as opened."""

    def __init__(self) -> None:
        self.chains: set[int] = set()

    def add(self, row: AuditRow) -> None:
        if row.event == SET_BACK:
            found = msgspec.json.decode(row.detail)
            raise ChainBroken(found["chain"], found["n"], f"the chain was set back: row {row.n} of chain 0 says so")
        if row.event != CHAIN_OPENED:
            return
        chain = msgspec.json.decode(row.detail)["chain"]
        if chain in self.chains:
            raise ChainBroken(chain, 1, f"the chain was started again: row {row.n} of chain 0 opens it a second time")
        self.chains.add(chain)


class ExportedHeads:
    """The heads that chain 0 of an export has recorded, until their rows are found. Chain 0 comes first."""

    def __init__(self) -> None:
        self._expected: dict[tuple[int, int], str] = {}

    def add(self, row: AuditRow, stored_hash: bytes) -> None:
        if row.chain == ROOT_CHAIN:
            self._expected.update(((chain, head.n), head.hash) for chain, head in recorded_heads(row))
            return
        expected = self._expected.pop((row.chain, row.n), None)
        if expected is not None and expected != hash_text(stored_hash):
            raise head_is_missing(row.chain, Head(row.n, expected))

    def finish(self) -> None:
        for (chain, n), text in sorted(self._expected.items()):
            raise head_is_missing(chain, Head(n, text))


class LiveVerification:
    """Verifies the live table in steps: `while verification.step(conn): …`, then read `verdict`."""

    def __init__(self, mac: KeyedHash, anchors: Sequence[Checkpoint] = ()) -> None:
        self._mac = mac
        self._anchors = anchors
        self._opened = OpenedChains()
        self._check = ChainCheck(mac, ROOT_CHAIN)
        self._remaining: deque[int] = deque()
        self.verdict = ChainVerdict(True, 0, 0)

    def step(self, conn: Connection) -> bool:
        """Verify the next rows. Return whether there are more."""
        try:
            return self._step(conn)
        except ChainBroken as found:
            self.verdict.intact, self.verdict.broken = False, found.broken
            return False

    def _step(self, conn: Connection) -> bool:
        check = self._check
        rows = conn.all(SQL.rows_after, chain=check.chain, n=check.n, limit=STEP_ROWS)
        heads: list[tuple[int, Head]] = []
        for row in rows:
            row_as_hashed = _row_of(row)
            check.add(row_as_hashed, row["hash"])
            self.verdict.rows += 1
            if check.chain == ROOT_CHAIN:
                self._opened.add(row_as_hashed)
                heads += recorded_heads(row_as_hashed)
                if len(heads) >= STEP_ROWS:
                    break
        for chain, head in missing_heads(conn, heads):
            raise head_is_missing(chain, head)
        if len(rows) == STEP_ROWS or len(heads) >= STEP_ROWS:
            return True
        self._finish_chain(conn)
        if self._remaining:
            self._check = ChainCheck(self._mac, self._remaining.popleft())
            return True
        self._check_anchors(conn)
        return False

    def _finish_chain(self, conn: Connection) -> None:
        chain = self._check.chain
        if chain == ROOT_CHAIN:
            self._remaining.extend(self._other_chains(conn))
            if self._check.n == 0 and not self._remaining and conn.one(SQL.checkpoint, chain=chain) is None:
                # The trail is empty.
                return
        self._check.finish(_live_checkpoint(conn, self._mac, chain))
        self.verdict.chains += 1

    def _other_chains(self, conn: Connection) -> list[int]:
        """All chains that exist or should, read in the snapshot of the end of the root chain."""
        existing = {row["chain"] for row in conn.all(SQL.chains, root=ROOT_CHAIN)}
        for chain in sorted(existing - self._opened.chains):
            raise ChainBroken(chain, 1, "chain 0 does not list the chain")
        return sorted(self._opened.chains)

    def _check_anchors(self, conn: Connection) -> None:
        for anchor in self._anchors:
            row = conn.one(SQL.hash_of_row, chain=anchor.chain, n=anchor.n)
            if row is None or row["hash"] != anchor.hash:
                reason = "the row was exported or stored elsewhere before, and is missing or another one now"
                raise ChainBroken(anchor.chain, anchor.n, reason)


def head_is_missing(chain: int, head: Head) -> ChainBroken:
    return ChainBroken(chain, head.n, "chain 0 has recorded this row, and it is missing or another one now")


def verify_export(lines: Iterable[bytes], mac: KeyedHash) -> ChainVerdict:
    """Verify the lines of an export; raise BadInput if they are not an export."""
    verdict = ChainVerdict(True, 0, 0)
    remaining = iter(lines)
    try:
        checkpoints = deque(verified_header(next(remaining, b""), mac))
        check: ChainCheck | None = None
        heads = ExportedHeads()
        for line in remaining:
            row, stored_hash = parse_row(line, f"line {verdict.rows + 2}")
            while check is None or row.chain != check.chain:
                check = _next_chain(mac, check, checkpoints, row)
                verdict.chains += 1
            check.add(row, stored_hash)
            heads.add(row, stored_hash)
            verdict.rows += 1
        _finish_export(mac, check, checkpoints)
        heads.finish()
    except ChainBroken as found:
        verdict.intact, verdict.broken = False, found.broken
    return verdict


def verified_header(line: bytes, mac: KeyedHash) -> list[Checkpoint]:
    """The checkpoints of the first line of an export; raise ChainBroken if it is not authentic."""
    header = ExportHeader.read(line)
    if not header.is_authentic(mac):
        raise ChainBroken(ROOT_CHAIN, 0, "the export's first line was changed, or signed with another key")
    return [each.checkpoint() for each in header.checkpoints]


def _next_chain(mac: KeyedHash, check: ChainCheck | None, checkpoints: deque[Checkpoint], row: AuditRow) -> ChainCheck:
    if check is not None:
        check.finish(checkpoints.popleft())
    if not checkpoints:
        raise ChainBroken(row.chain, row.n, "the export's first line does not list the chain")
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
    found = signed_checkpoint_of(row)
    return found.checkpoint() if found.is_authentic(mac) else None


def _row_of(row: Row) -> AuditRow:
    return AuditRow(**{name: row[name] for name in AuditRow.__struct_fields__})


def anchored_checkpoints(lines: Iterable[bytes], mac: KeyedHash) -> Sequence[Checkpoint]:
    """The checkpoints of an export or of a file of signed heads, as anchors for the live table; raise BadInput if they
    are not authentic."""
    remaining = iter(lines)
    first = next(remaining, b"")
    if is_head(first):
        return [
            verified_head(line, mac, f"line {number}")
            for number, line in enumerate((first, *remaining), 1)
            if line.strip()
        ]
    try:
        return verified_header(first, mac)
    except ChainBroken as broken:
        raise BadInput("export", f"an unchanged export ({broken})") from None
