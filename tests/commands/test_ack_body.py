from typing import Any

import msgspec
import pytest

from restante.commands.ack_body import SNAPSHOT_BYTES_MAX, AckBody, ExtendBody, read_ack
from restante.core.ack import AckStatus
from restante.core.errors import BadInput
from restante.web.ask import decode_json
from tests.commands.field import read


def test_reads_the_contracts_example() -> None:
    ack = read(
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


def test_reads_the_spellings_of_the_field() -> None:
    ack = read("completed", result_message="done", ack_nonce="n", firmware="x").ack
    assert (ack.status, ack.message, ack.nonce) == (AckStatus.succeeded, "done", "n")
    assert read("skipped").ack.status is AckStatus.rejected


def test_the_contracts_spelling_comes_first() -> None:
    ack = read("failed", message="a", result_message="b", nonce="c", ack_nonce="d").ack
    assert (ack.message, ack.nonce) == ("a", "c")


def test_what_is_absent_or_null_is_empty() -> None:
    for said in ({}, {"result_code": None, "message": None, "nonce": None}):
        ack = read("failed", **said).ack
        assert (ack.result_code, ack.message, ack.nonce) == ("", "", None)


def test_a_code_may_be_a_word() -> None:
    assert read("failed", result_code="E_HOT").ack.result_code == "E_HOT"


@pytest.mark.parametrize(
    ("said", "until", "seconds"),
    [
        ({"params": {"defer_until": "2026-01-18T10:05:00Z"}}, 1_768_730_700_000, None),
        ({"defer_until": "2026-01-18T10:05:00Z"}, 1_768_730_700_000, None),
        ({"retry_after_sec": 5}, None, 5),
        ({"params": {"retry_after_sec": 6, "x": 1}}, None, 6),
        ({}, None, None),
    ],
)
def test_a_deferral_says_when(said: dict[str, Any], until: int | None, seconds: int | None) -> None:
    ack = read("deferred", **said).ack
    assert (ack.defer_until_ms, ack.defer_seconds) == (until, seconds)


def test_a_signed_ack_keeps_its_text() -> None:
    assert read("failed", signature="ab").signed_body == b'{"status":"failed","signature":"ab"}'


@pytest.mark.parametrize(
    ("said", "field"),
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
def test_names_what_is_wrong(said: dict[str, Any], field: str) -> None:
    raw = msgspec.json.encode(said)
    with pytest.raises(BadInput) as refused:
        read_ack(decode_json(raw, AckBody), raw)
    assert refused.value.field == field


@pytest.mark.parametrize("seconds", [0, 3601, -1, "60", 1.5])
def test_an_extension_is_one_second_to_an_hour(seconds: object) -> None:
    with pytest.raises(BadInput) as refused:
        decode_json(msgspec.json.encode({"lease_seconds": seconds}), ExtendBody)
    assert refused.value.field == "lease_seconds"
