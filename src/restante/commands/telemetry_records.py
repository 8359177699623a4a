"""What collectors send as telemetry: a list of records, or an envelope around one. Each record stands for itself.

A record has a miner and a time, and beside them whatever the collector measures: numbers under any name, which rules
may watch. It is kept as it was sent. A record that is not so is an error with its index, and costs no other.
Knows nothing of which miners there are.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from restante.commands.wire import AccessDenied, parse_iso
from restante.core.errors import BadInput, TooLarge
from restante.web.ask import INT64_MAX, decode_json

SCHEMA = "telemetry_envelope.v1"
RECORDS_MAX = 10_000
RECORD_BYTES_MAX = 4096

_fields = msgspec.json.Decoder(dict[str, Any])


class Envelope(msgspec.Struct):
    """Who sends is known by the token: `device_id` and `zone_id` are the collector's own notes."""

    records: list[msgspec.Raw]
    schema: Literal["telemetry_envelope.v1"] | None = None
    site_id: int | None = None
    record_count: int | None = None


class Sample(NamedTuple):
    """A good record: its place in the batch, whose it is, when it was made, what it says, and its own words."""

    place: int
    miner_id: int
    ts: int
    fields: dict[str, Any]
    text: str


class RecordError(msgspec.Struct, frozen=True):
    index: int
    error: str


class Batch(NamedTuple):
    samples: list[Sample]
    errors: list[RecordError]


def parse_batch(body: bytes, site_id: int) -> Batch:
    """The records of a body, the good and the bad; BadInput where it is neither list nor envelope."""
    sent = decode_json(body, Envelope | list[msgspec.Raw])  # type: ignore[arg-type] # A union is no type[T] to mypy.
    records = _opened(sent, site_id) if isinstance(sent, Envelope) else sent
    if len(records) > RECORDS_MAX:
        raise TooLarge(f"a batch has at most {RECORDS_MAX} records")
    return _sorted_out(records)


def _opened(envelope: Envelope, site_id: int) -> list[msgspec.Raw]:
    if envelope.site_id not in (None, site_id):
        raise AccessDenied()
    if envelope.record_count not in (None, len(envelope.records)):
        raise BadInput("record_count", f"the number of records, {len(envelope.records)}")
    return envelope.records


def _sorted_out(records: list[msgspec.Raw]) -> Batch:
    batch = Batch([], [])
    # The records of a batch are mostly of a few moments: each is read once.
    times: dict[str, int] = {}
    for index, record in enumerate(records):
        try:
            batch.samples.append(_sample(index, bytes(record), times))
        except BadInput as error:
            batch.errors.append(RecordError(index, error.message))
    return batch


def _sample(index: int, record: bytes, times: dict[str, int]) -> Sample:
    if len(record) > RECORD_BYTES_MAX:
        raise BadInput("record", f"at most {RECORD_BYTES_MAX} bytes of JSON")
    try:
        fields = _fields.decode(record)
        text = record.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadInput("record", "an object of valid JSON") from None
    return Sample(index, _miner_id(fields), _moment(fields, times), fields, text)


def _miner_id(fields: dict[str, Any]) -> int:
    miner_id = fields.get("miner_id")
    if type(miner_id) is not int or not 0 < miner_id <= INT64_MAX:
        raise BadInput("miner_id", "the id of a miner of the site")
    return miner_id


def _moment(fields: dict[str, Any], times: dict[str, int]) -> int:
    ts = fields.get("ts")
    if not isinstance(ts, str):
        raise BadInput("ts", "a time as UTC ISO 8601, 2026-01-18T10:00:00Z")
    known = times.get(ts)
    if known is None:
        known = times[ts] = parse_iso(ts, "ts")
    return known
