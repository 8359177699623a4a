"""The audit trail as a file of JSON lines that can be verified without the database.

    line 1:  {"restante_audit_export": 1, "at", "checkpoints": [{chain, n, hash, at, signature} …], "signature"}
    then:    every row of those chains up to its checkpoint, by chain and number

The first line is signed as a whole: which chains there are and how far they go cannot be changed either. `detail`
stands in a row exactly as it was hashed; a program that writes the lines anew may break the proof.
"""

import hmac
from collections.abc import Iterator

import msgspec

from restante.commands.audit import AuditRow, Checkpoint
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

VERSION = 1
BATCH_ROWS = 2000
_encoder = msgspec.json.Encoder()


class SignedCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chain: int
    n: int
    hash: str
    at: int
    signature: str

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.chain, self.n, bytes.fromhex(self.hash), self.at)

    def is_ours(self, mac: KeyedHash) -> bool:
        return hmac.compare_digest(self.checkpoint().signature(mac).hex().encode(), self.signature.encode())


class ExportHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    restante_audit_export: int
    at: int
    checkpoints: list[SignedCheckpoint]
    signature: str = ""

    @classmethod
    def read(cls, line: bytes) -> "ExportHeader":
        try:
            header = msgspec.json.decode(line, type=cls)
            for each in header.checkpoints:
                each.checkpoint()
        except (msgspec.MsgspecError, ValueError):
            raise BadInput("line 1", "the first line of an audit export") from None
        if header.restante_audit_export != VERSION:
            raise BadInput("line 1", f"an audit export of version {VERSION}")
        return header

    def signed(self, mac: KeyedHash) -> "ExportHeader":
        return msgspec.structs.replace(self, signature=self._signature(mac))

    def is_ours(self, mac: KeyedHash) -> bool:
        return hmac.compare_digest(self._signature(mac).encode(), self.signature.encode()) and all(
            each.is_ours(mac) for each in self.checkpoints
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


def header(conn: Connection, mac: KeyedHash, site_id: int | None) -> ExportHeader:
    """What an export of one site's chain, or of all, begins with; the rows follow from it."""
    rows = conn.all(SQL.checkpoints, chain=site_id)
    return ExportHeader(VERSION, conn.now_ms, [signed_checkpoint(row) for row in rows]).signed(mac)


def rows_between(conn: Connection, chain: int, after: int, until: int) -> list[ExportedRow]:
    """Some rows of a chain, from the one after a number up to another."""
    rows = conn.all(SQL.rows, chain=chain, after=after, until=min(until, after + BATCH_ROWS))
    return [_exported(row) for row in rows]


def batches(header: ExportHeader) -> Iterator[tuple[int, int, int]]:
    """What to ask `rows_between` for, one after another, to get all rows of an export."""
    for checkpoint in header.checkpoints:
        for after in range(0, checkpoint.n, BATCH_ROWS):
            yield checkpoint.chain, after, checkpoint.n


def as_line(part: ExportHeader | ExportedRow) -> bytes:
    return _encoder.encode(part) + b"\n"


def exported_row(line: bytes, place: str) -> tuple[AuditRow, bytes]:
    """A line as the row that was hashed, and the hash it came with."""
    try:
        row = msgspec.json.decode(line, type=ExportedRow)
        fields = {name: getattr(row, name) for name in AuditRow.__struct_fields__}
        return AuditRow(**{**fields, "detail": bytes(row.detail).decode()}), bytes.fromhex(row.hash)
    except (msgspec.MsgspecError, ValueError):
        raise BadInput(place, "a row of an audit export") from None


def signed_checkpoint(row: Row) -> SignedCheckpoint:
    return SignedCheckpoint(row["chain"], row["n"], row["hash"].hex(), row["at"], row["signature"].hex())


def _exported(row: Row) -> ExportedRow:
    fields = {name: row[name] for name in ExportedRow.__struct_fields__}
    return ExportedRow(**{**fields, "detail": msgspec.Raw(row["detail"].encode()), "hash": row["hash"].hex()})
