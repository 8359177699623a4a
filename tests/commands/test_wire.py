import json

import pytest

from restante.commands import wire
from restante.commands.wire import SHAPE, iso, iso_not_before, iso_or_none, iso_precise, parse_iso
from restante.core.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooLarge,
    TooManyRequests,
    Unavailable,
    WrongMediaType,
)

ERRORS: list[tuple[RestanteError, int, str]] = [
    (wire.CommandNotFound(), 404, "COMMAND_NOT_FOUND"),
    (wire.AccessDenied(), 403, "ACCESS_DENIED"),
    (wire.NotLeaseOwner(), 409, "ACK_NOT_LEASE_OWNER"),
    (wire.CommandFinished("failed"), 409, "COMMAND_FINISHED"),
    (wire.CommandGone(), 410, "COMMAND_EXPIRED"),
    (wire.RateLimited(retry_after_seconds=7), 429, "RATE_LIMITED"),
    (wire.SignatureInvalid(), 401, "SIGNATURE_INVALID"),
    (wire.NonceMismatch(), 401, "NONCE_MISMATCH"),
    (wire.DuplicateActive("cmd_1"), 409, "DUPLICATE_ACTIVE"),
    (BadInput("limit", "a number"), 400, "INVALID_REQUEST"),
    (NotAuthenticated(), 401, "UNAUTHORIZED"),
    (NotAllowed(), 403, "FORBIDDEN"),
    (NotFound(), 404, "NOT_FOUND"),
    (Conflict(), 409, "CONFLICT"),
    (TooLarge(), 413, "PAYLOAD_TOO_LARGE"),
    (WrongMediaType(), 415, "UNSUPPORTED_MEDIA_TYPE"),
    (TooManyRequests(retry_after_seconds=1), 429, "RATE_LIMITED"),
    (Unavailable(retry_after_seconds=1), 503, "UNAVAILABLE"),
    (RestanteError(), 500, "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("error", "status", "code"), ERRORS, ids=[code for _, _, code in ERRORS])
def test_every_error_has_its_status_and_code(error: RestanteError, status: int, code: str) -> None:
    answer = SHAPE.error(error)
    body = json.loads(answer.body)
    assert (answer.status, body["error"]) == (status, code)
    assert body["message"] == error.message


def test_an_error_says_what_there_is_to_say() -> None:
    assert json.loads(SHAPE.error(BadInput("limit", "a number")).body)["field"] == "limit"
    assert json.loads(SHAPE.error(wire.CommandFinished("failed")).body)["command_status"] == "failed"
    assert json.loads(SHAPE.error(wire.DuplicateActive("cmd_1")).body)["command_id"] == "cmd_1"
    limited = SHAPE.error(wire.RateLimited(retry_after_seconds=7))
    assert (b"retry-after", b"7") in limited.headers
    assert json.loads(limited.body)["retry_after_sec"] == 7
    assert (b"www-authenticate", b"Bearer") in SHAPE.error(wire.NonceMismatch()).headers


def test_a_success_is_the_object_itself() -> None:
    assert SHAPE.success({"a": 1}, 201) == SHAPE.success({"a": 1}).__class__(201, SHAPE.success({}).headers, b'{"a":1}')
    assert SHAPE.success(None, 204).body == b""


def test_times_are_utc_with_z() -> None:
    assert iso(1_768_730_400_999) == "2026-01-18T10:00:00Z"
    assert iso_precise(1_768_730_400_007) == "2026-01-18T10:00:00.007Z"
    assert iso_not_before(1_768_730_400_000) == "2026-01-18T10:00:00Z"
    assert iso_not_before(1_768_730_400_001) == "2026-01-18T10:00:01Z"
    assert iso_or_none(None) is None
    assert iso_or_none(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    ["2026-01-18T10:00:00Z", "2026-01-18T10:00:00", "2026-01-18T10:00:00+00:00", "2026-01-18T11:00:00+01:00"],
)
def test_reads_times_as_collectors_write_them(text: str) -> None:
    assert parse_iso(text, "ts") == 1_768_730_400_000


def test_reads_fractions_of_seconds() -> None:
    assert parse_iso("2026-01-18T10:00:00.25Z", "ts") == 1_768_730_400_250


@pytest.mark.parametrize(
    "text", ["", "now", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "1768730400"]
)
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_iso(text, "ts")
    assert refused.value.field == "ts"
