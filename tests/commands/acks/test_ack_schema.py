from typing import Any

import msgspec
import pytest

from restante.commands.acks.ack_schema import SNAPSHOT_BYTES_MAX, AckBody, ExtendBody, parse_ack
from restante.core.commands.ack import AckStatus
from restante.core.decoding import decode_json
from restante.core.errors import BadInput
from tests.commands.edge_fixture import ack_of


def test_example_of_the_contract_is_parsed() -> None:
    ack = ack_of(
        "succeeded",
        result_code=0,
        message="Command executed successfully",
        executed_at="2026-01-18T10:05:00Z",
        before_snapshot={"hashrate": 100.5},
        after_snapshot={},
        nonce="f47ac10b-58cc-4372-a567-0e02b2c3d479",
    )
    assert ack.ack.status is AckStatus.succeeded
    assert (ack.ack.result_code, ack.ack.message) == ("0", "Command executed successfully")
    assert ack.ack.nonce == "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    assert ack.executed_at_ms == 1_768_730_700_000
    assert (ack.before_snapshot, ack.after_snapshot) == ('{"hashrate":100.5}', "{}")
    assert ack.signed_body is None


def test_spellings_of_older_collectors_are_parsed() -> None:
    ack = ack_of("completed", result_message="done", ack_nonce="n", firmware="x").ack
    assert (ack.status, ack.message, ack.nonce) == (AckStatus.succeeded, "done", "n")
    assert ack_of("skipped").ack.status is AckStatus.rejected


def test_snapshots_of_older_collectors_are_parsed() -> None:
    ack = ack_of("completed", before={"a": 1}, after={"b": 2})
    assert (ack.before_snapshot, ack.after_snapshot) == ('{"a":1}', '{"b":2}')
    both = ack_of("completed", before={"a": 1}, before_snapshot={"a": 1}, after=None, after_snapshot={"b": 2})
    assert (both.before_snapshot, both.after_snapshot) == ('{"a":1}', '{"b":2}')


@pytest.mark.parametrize(
    ("status", "fields", "is_duplicate"),
    [
        ("skipped", {"result_code": 2, "message": "DUPLICATE_IGNORED"}, True),
        ("skipped", {"result_code": "2", "result_message": "DUPLICATE_IGNORED"}, True),
        ("skipped", {"result_code": 2, "message": "duplicate_ignored"}, False),
        ("skipped", {"result_code": 2}, False),
        ("skipped", {"message": "DUPLICATE_IGNORED"}, False),
        ("rejected", {"result_code": 2, "message": "DUPLICATE_IGNORED"}, False),
        ("failed", {"result_code": 2, "message": "DUPLICATE_IGNORED"}, False),
    ],
)
def test_duplicate_is_recognised_by_status_code_and_message(
    status: str, fields: dict[str, Any], is_duplicate: bool
) -> None:
    assert ack_of(status, **fields).ack.is_duplicate == is_duplicate


def test_spelling_of_the_contract_takes_precedence() -> None:
    ack = ack_of("failed", message="a", result_message="b", nonce="c", ack_nonce="d").ack
    assert (ack.message, ack.nonce) == ("a", "c")


def test_absent_and_null_fields_are_empty() -> None:
    for body in ({}, {"result_code": None, "message": None, "nonce": None}):
        ack = ack_of("failed", **body).ack
        assert (ack.result_code, ack.message, ack.nonce) == ("", "", None)


def test_result_code_may_be_a_word() -> None:
    assert ack_of("failed", result_code="E_HOT").ack.result_code == "E_HOT"


@pytest.mark.parametrize(
    ("body", "until", "seconds"),
    [
        ({"params": {"defer_until": "2026-01-18T10:05:00Z"}}, 1_768_730_700_000, None),
        ({"defer_until": "2026-01-18T10:05:00Z"}, 1_768_730_700_000, None),
        ({"retry_after_sec": 5}, None, 5),
        ({"params": {"retry_after_sec": 6, "x": 1}}, None, 6),
        ({}, None, None),
    ],
)
def test_deferral_time_or_delay_is_parsed(body: dict[str, Any], until: int | None, seconds: int | None) -> None:
    ack = ack_of("deferred", **body).ack
    assert (ack.defer_until_ms, ack.defer_seconds) == (until, seconds)


def test_signed_ack_keeps_its_raw_body() -> None:
    assert ack_of("failed", signature="ab").signed_body == b'{"status":"failed","signature":"ab"}'


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"status": "done"}, "status"),
        ({"status": "expired"}, "status"),
        ({"status": ""}, "status"),
        ({}, "status"),
        ({"status": "failed", "result_code": True}, "result_code"),
        ({"status": "failed", "result_code": 1.5}, "result_code"),
        ({"status": "failed", "result_code": 2**60}, "result_code"),
        ({"status": "failed", "message": "x" * 4097}, "message"),
        ({"status": "failed", "message": 5}, "message"),
        ({"status": "failed", "executed_at": "yesterday"}, "executed_at"),
        ({"status": "failed", "executed_at": 5}, "executed_at"),
        ({"status": "failed", "before_snapshot": []}, "before_snapshot"),
        ({"status": "failed", "after_snapshot": {"a": "x" * SNAPSHOT_BYTES_MAX}}, "after_snapshot"),
        ({"status": "failed", "nonce": "n" * 257}, "nonce"),
        ({"status": "failed", "attempt": "1"}, "attempt"),
        ({"status": "deferred", "retry_after_sec": -1}, "retry_after_sec"),
        ({"status": "deferred", "params": {"retry_after_sec": 10**9}}, "params.retry_after_sec"),
        ({"status": "deferred", "params": {"defer_until": "soon"}}, "defer_until"),
    ],
)
def test_invalid_field_is_named(body: dict[str, Any], field: str) -> None:
    raw = msgspec.json.encode(body)
    with pytest.raises(BadInput) as refused:
        parse_ack(decode_json(raw, AckBody), raw)
    assert refused.value.field == field


@pytest.mark.parametrize("seconds", [0, 3601, -1, "60", 1.5])
def test_extension_must_be_one_second_to_one_hour(seconds: object) -> None:
    with pytest.raises(BadInput) as refused:
        decode_json(msgspec.json.encode({"lease_seconds": seconds}), ExtendBody)
    assert refused.value.field == "lease_seconds"
