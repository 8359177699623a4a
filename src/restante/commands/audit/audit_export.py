"""Export of the audit trail as JSON lines, which can be verified without the database.

    line 1:  {"restante_audit_export": 1, "at", "checkpoints": [{chain, n, hash, at, signature} …], "signature"}
    then:    every row of those chains up to its checkpoint, by chain and number

The signature covers the whole first line, so the list of chains and their lengths cannot be changed either. `detail` is
exported exactly as it was hashed; a program that encodes the lines again may break the proof.
"""

import hmac
from collections.abc import Iterator

import msgspec

from restante.commands.audit.audit_trail import AuditRow, Checkpoint
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

VERSION = 1
# Bounds the memory of an export: a row may have two snapshots of 64 KiB.
BATCH_ROWS = 100
_encoder = msgspec.json.Encoder()


class SignedCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chain: int
    n: int
    hash: str
    at: int
    signature: str

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.chain, self.n, bytes.fromhex(self.hash), self.at)

    def is_authentic(self, mac: KeyedHash) -> bool:
        return hmac.compare_digest(self.checkpoint().signature(mac).hex().encode(), self.signature.encode())


class ExportHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    restante_audit_export: int
    at: int
    checkpoints: list[SignedCheckpoint]
    signature: str = ""

    @classmethod
    def read(cls, line: bytes) -> "ExportHeader":
        try:
            build_header = msgspec.json.decode(line, type=cls)
            for each in build_header.checkpoints:
                each.checkpoint()
        except (msgspec.MsgspecError, ValueError):
            raise BadInput("line 1", "the first line of an audit export") from None
        if build_header.restante_audit_export != VERSION:
            raise BadInput("line 1", f"an audit export of version {VERSION}")
        return build_header

    def signed(self, mac: KeyedHash) -> "ExportHeader":
        return msgspec.structs.replace(self, signature=self._signature(mac))

    def is_authentic(self, mac: KeyedHash) -> bool:
        return hmac.compare_digest(self._signature(mac).encode(), self.signature.encode()) and all(
            each.is_authentic(mac) for each in self.checkpoints
        )

    def _signature(self, mac: KeyedHash) -> str:
        unsigned = _encoder.encode(msgspec.structs.replace(self, signature=""))
        return mac.digest(b"export\0" + unsigned).hex()


class ExportedRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    actor: str
    at: int
    chain: int
    command_id: str | None
    detail: msgspec.Raw
    event: str
    from_state: str | None
    n: int
    to_state: str | None
    hash: str


def build_header(conn: Connection, mac: KeyedHash, site_id: int | None, sites: AllowedIds = ALL_IDS) -> ExportHeader:
    """Build the first line of an export of one site's chain, or of all allowed ones. It determines the rows that
    follow."""
    rows = [row for row in conn.all(SQL.checkpoints, chain=site_id) if row["chain"] in sites]
    return ExportHeader(VERSION, conn.now_ms, [signed_checkpoint_of(row) for row in rows]).signed(mac)


def read_rows(conn: Connection, chain: int, after: int, until: int) -> list[ExportedRow]:
    """Read the rows of a chain after number `after`, up to `until`, at most a batch."""
    rows = conn.all(SQL.rows, chain=chain, after=after, until=min(until, after + BATCH_ROWS))
    return [_row_of(row) for row in rows]


def row_ranges(header: ExportHeader) -> Iterator[tuple[int, int, int]]:
    """The arguments of the calls of `read_rows` that read all rows of an export."""
    for checkpoint in header.checkpoints:
        for after in range(0, checkpoint.n, BATCH_ROWS):
            yield checkpoint.chain, after, checkpoint.n


def encode_line(part: ExportHeader | ExportedRow) -> bytes:
    return _encoder.encode(part) + b"\n"


def parse_row(line: bytes, place: str) -> tuple[AuditRow, bytes]:
    """Parse a line into the row that was hashed, and its hash."""
    try:
        row = msgspec.json.decode(line, type=ExportedRow)
        fields = {name: getattr(row, name) for name in AuditRow.__struct_fields__}
        return AuditRow(**{**fields, "detail": bytes(row.detail).decode()}), bytes.fromhex(row.hash)
    except (msgspec.MsgspecError, ValueError):
        raise BadInput(place, "a row of an audit export") from None


def signed_checkpoint_of(row: Row) -> SignedCheckpoint:
    return SignedCheckpoint(row["chain"], row["n"], row["hash"].hex(), row["at"], row["signature"].hex())


def _row_of(row: Row) -> ExportedRow:
    fields = {name: row[name] for name in ExportedRow.__struct_fields__}
    return ExportedRow(**{**fields, "detail": msgspec.Raw(row["detail"].encode()), "hash": row["hash"].hex()})
