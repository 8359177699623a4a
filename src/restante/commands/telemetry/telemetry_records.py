"""Parse the telemetry that collectors send: a list of records, or an envelope around such a list.

A record has a miner, a time and any measurements: numbers under any name, which rules may watch. Its text is stored as
the collector sent it; measurements under the names of collectors in the field are also stored under their standard
names (`measurement_names`). Each record is checked on its own: an invalid record is an error with its index and does
not affect the others. This module does not know which miners exist.
"""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from restante.commands.body_ids import BodyWithIds, Id, parse_id
from restante.commands.errors import AccessDenied
from restante.commands.telemetry.measurement_names import standard_measurements
from restante.core.decoding import decode_json
from restante.core.errors import BadInput, TooLarge
from restante.core.iso_time import parse_iso

SCHEMA = "telemetry_envelope.v1"
RECORDS_MAX = 10_000
RECORD_BYTES_MAX = 4096

_fields = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class Envelope(BodyWithIds, frozen=True):
    """Other fields such as `device_id` and `zone_id` are ignored: the token identifies the collector."""

    id_fields = ("site_id",)

    records: list[msgspec.Raw]
    schema: Literal["telemetry_envelope.v1"] | None = None
    site_id: Id | None = None
    record_count: int | None = None


class Sample(msgspec.Struct, frozen=True):
    """A valid record. `index`: its position in the batch. `ts`: its own time in ms. `fields` and `text`: as sent, with
    the standard names of its measurements."""

    index: int
    miner_id: int
    ts: int
    fields: dict[str, Any]
    text: str


class RecordError(msgspec.Struct, frozen=True):
    index: int
    error: str


@dataclass(frozen=True, slots=True)
class Batch:
    samples: list[Sample]
    errors: list[RecordError]


def parse_batch(body: bytes, site_id: int) -> Batch:
    """The valid records and the errors of a body; BadInput if it is neither a list nor an envelope."""
    sent = decode_json(body, Envelope | list[msgspec.Raw])  # type: ignore[arg-type] # mypy does not accept a union as type[T].
    records = _records_of(sent, site_id) if isinstance(sent, Envelope) else sent
    if len(records) > RECORDS_MAX:
        raise TooLarge(f"a batch has at most {RECORDS_MAX} records")
    return _parse_records(records)


def _records_of(envelope: Envelope, site_id: int) -> list[msgspec.Raw]:
    if envelope.site_id not in (None, site_id):
        raise AccessDenied()
    if envelope.record_count not in (None, len(envelope.records)):
        raise BadInput("record_count", f"the number of records, {len(envelope.records)}")
    return envelope.records


def _parse_records(records: list[msgspec.Raw]) -> Batch:
    batch = Batch([], [])
    # Most records of a batch share a few times: parse each time once.
    times: dict[str, int] = {}
    for index, record in enumerate(records):
        try:
            batch.samples.append(_parse_record(index, bytes(record), times))
        except BadInput as error:
            batch.errors.append(RecordError(index, error.message))
    return batch


def _parse_record(index: int, record: bytes, times: dict[str, int]) -> Sample:
    if len(record) > RECORD_BYTES_MAX:
        raise BadInput("record", f"at most {RECORD_BYTES_MAX} bytes of JSON")
    try:
        fields = _fields.decode(record)
        text = record.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadInput("record", "an object of valid JSON") from None
    miner_id = parse_id(fields.get("miner_id"), "miner_id", "the id of a miner of the site")
    ts = _time_of(fields, times)
    added = standard_measurements(fields)
    if added:
        fields |= added
        text = _encoder.encode(fields).decode()
    return Sample(index, miner_id, ts, fields, text)


def _time_of(fields: dict[str, Any], times: dict[str, int]) -> int:
    """The time of the record: `ts`, or `timestamp`, as collectors in the field name it."""
    ts = fields.get("ts")
    timestamp = fields.get("timestamp")
    if timestamp is None:
        return _parse_time(ts, "ts", times)
    parsed = _parse_time(timestamp, "timestamp", times)
    if ts is not None and _parse_time(ts, "ts", times) != parsed:
        raise BadInput("timestamp", "the same time as ts, which is also present")
    return parsed


def _parse_time(value: Any, field: str, times: dict[str, int]) -> int:
    if not isinstance(value, str):
        raise BadInput(field, "a time as UTC ISO 8601, 2026-01-18T10:00:00Z")
    known = times.get(value)
    if known is None:
        known = times[value] = parse_iso(value, field)
    return known
