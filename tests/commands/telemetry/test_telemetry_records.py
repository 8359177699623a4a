from typing import Any

import msgspec
import pytest

from restante.commands.errors import AccessDenied
from restante.commands.telemetry.telemetry_records import RECORD_BYTES_MAX, RECORDS_MAX, Batch, RecordError, parse_batch
from restante.core.errors import BadInput, TooLarge
from tests.commands.reporting_fixture import iso_at
from tests.conftest import START_MS

SITE = 7
GOOD = {"miner_id": 1, "ts": iso_at(0), "temp_max": 70.5, "fans": {"left": 1}}


def parse(body: Any) -> Batch:
    return parse_batch(msgspec.json.encode(body), SITE)


def test_list_is_parsed_as_a_batch() -> None:
    batch = parse([GOOD, {**GOOD, "miner_id": 2}])
    assert [(sample.index, sample.miner_id, sample.ts) for sample in batch.samples] == [
        (0, 1, START_MS),
        (1, 2, START_MS),
    ]
    assert batch.samples[0].fields == GOOD
    assert batch.errors == []


def test_record_text_is_kept_as_sent() -> None:
    text = b'{ "ts":"2026-01-18T10:30:00Z",  "miner_id":1, "x": 1.50 }'
    assert parse_batch(b"[" + text + b"]", SITE).samples[0].text == text.decode()


def test_envelope_is_parsed_as_a_batch() -> None:
    envelope = {
        "schema": "telemetry_envelope.v1",
        "site_id": SITE,
        "zone_id": 3,
        "device_id": "edge-01",
        "sent_at": iso_at(1),
        "record_count": 1,
        "records": [GOOD],
        "agent": "9.1",
    }
    assert len(parse(envelope).samples) == 1
    assert len(parse({"records": [GOOD]}).samples) == 1


def test_empty_batch_is_valid() -> None:
    assert parse([]) == parse({"records": []}) == Batch([], [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schema": "telemetry_envelope.v2", "records": []}, "schema"),
        ({"record_count": 2, "records": [GOOD]}, "record_count"),
        ({"schema": "telemetry_envelope.v1"}, "records"),
        ({"records": {}}, "records"),
        ({"site_id": "7.0", "records": []}, "site_id"),
        (7, "body"),
        ("[]", "body"),
    ],
)
def test_body_that_is_neither_list_nor_envelope_is_bad_input(body: Any, field: str) -> None:
    with pytest.raises(BadInput) as raised:
        parse(body)
    assert raised.value.field == field


def test_broken_json_is_bad_input() -> None:
    with pytest.raises(BadInput):
        parse_batch(b'[{"miner_id": 1', SITE)


def test_envelope_of_another_site_is_denied() -> None:
    with pytest.raises(AccessDenied):
        parse({"site_id": SITE + 1, "records": []})


def test_batch_over_the_limit_is_too_large() -> None:
    assert len(parse([1] * RECORDS_MAX).errors) == RECORDS_MAX
    with pytest.raises(TooLarge):
        parse([1] * (RECORDS_MAX + 1))


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (1, "record: "),
        (None, "record: "),
        ([GOOD], "record: "),
        ({"ts": iso_at(0)}, "miner_id: "),
        ({**GOOD, "miner_id": "01"}, "miner_id: "),
        ({**GOOD, "miner_id": True}, "miner_id: "),
        ({**GOOD, "miner_id": 0}, "miner_id: "),
        ({**GOOD, "miner_id": 2**63}, "miner_id: "),
        ({**GOOD, "miner_id": 1.0}, "miner_id: "),
        ({"miner_id": 1}, "ts: "),
        ({**GOOD, "ts": 1768732200}, "ts: "),
        ({**GOOD, "ts": "yesterday"}, "ts: "),
        ({**GOOD, "ts": "1969-12-31T23:59:59Z"}, "ts: "),
        ({**GOOD, "pad": "x" * RECORD_BYTES_MAX}, "record: "),
    ],
)
def test_invalid_record_does_not_affect_others(record: Any, error: str) -> None:
    batch = parse([GOOD, record, GOOD])
    assert [sample.index for sample in batch.samples] == [0, 2]
    [found] = batch.errors
    assert found.index == 1
    assert found.error.startswith(error)


def test_number_out_of_range_is_an_error_of_its_record() -> None:
    body = b'[{"miner_id":1,"ts":"2026-01-18T10:30:00Z","temp_max":1e999},{"miner_id":1,"ts":"2026-01-18T10:30:00Z"}]'
    batch = parse_batch(body, SITE)
    assert batch.errors == [RecordError(0, "record: expected an object of valid JSON")]
    assert len(batch.samples) == 1
