import json

import pytest

from restante.commands import errors
from restante.commands.response_format import RESPONSE_FORMAT
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
from restante.core.iso_time import parse_iso
from restante.web.errors.challenges import challenge

ERRORS: list[tuple[RestanteError, int, str]] = [
    (errors.CommandNotFound(), 404, "COMMAND_NOT_FOUND"),
    (errors.AccessDenied(), 403, "ACCESS_DENIED"),
    (errors.NotLeaseOwner(), 409, "ACK_NOT_LEASE_OWNER"),
    (errors.CommandFinished("failed"), 409, "COMMAND_FINISHED"),
    (errors.CommandGone(), 410, "COMMAND_EXPIRED"),
    (errors.RateLimited(retry_after_seconds=7), 429, "RATE_LIMITED"),
    (errors.SignatureInvalid(), 401, "SIGNATURE_INVALID"),
    (errors.NonceMismatch(), 401, "NONCE_MISMATCH"),
    (errors.DuplicateActive("cmd_1"), 409, "DUPLICATE_ACTIVE"),
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
    response = RESPONSE_FORMAT.error(error)
    body = json.loads(response.body)
    assert (response.status, body["error"]) == (status, code)
    assert body["message"] == error.message


def test_error_body_has_the_fields_of_its_error() -> None:
    assert json.loads(RESPONSE_FORMAT.error(BadInput("limit", "a number")).body)["field"] == "limit"
    assert json.loads(RESPONSE_FORMAT.error(errors.CommandFinished("failed")).body)["command_status"] == "failed"
    assert json.loads(RESPONSE_FORMAT.error(errors.DuplicateActive("cmd_1")).body)["command_id"] == "cmd_1"
    limited = RESPONSE_FORMAT.error(errors.RateLimited(retry_after_seconds=7))
    assert (b"retry-after", b"7") in limited.headers
    assert json.loads(limited.body)["retry_after_sec"] == 7
    # The nonce is wrong, the token is not.
    assert set(challenge(NotAuthenticated())) <= set(RESPONSE_FORMAT.error(errors.NonceMismatch()).headers)


def test_success_body_is_the_object_itself() -> None:
    assert RESPONSE_FORMAT.success({"a": 1}, 201) == RESPONSE_FORMAT.success({"a": 1}).__class__(
        201, RESPONSE_FORMAT.success({}).headers, b'{"a":1}'
    )
    assert RESPONSE_FORMAT.success(None, 204).body == b""


@pytest.mark.parametrize(
    "text",
    ["2026-01-18T10:00:00Z", "2026-01-18T10:00:00", "2026-01-18T10:00:00+00:00", "2026-01-18T11:00:00+01:00"],
)
def test_times_of_collectors_are_parsed(text: str) -> None:
    assert parse_iso(text, "ts") == 1_768_730_400_000


def test_fractions_of_seconds_are_parsed() -> None:
    assert parse_iso("2026-01-18T10:00:00.25Z", "ts") == 1_768_730_400_250


@pytest.mark.parametrize(
    "text", ["", "now", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "1768730400"]
)
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_iso(text, "ts")
    assert refused.value.field == "ts"
