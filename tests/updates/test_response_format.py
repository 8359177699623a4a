import json
from typing import Any

import msgspec
import pytest

from restante.core.errors import (
    BadInput,
    Conflict,
    CursorExpired,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooLarge,
    TooManyRequests,
    Unavailable,
    Unprocessable,
    WrongMediaType,
)
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.errors.challenges import challenge
from restante.web.response import JSON, NO_STORE, ApiResponse


class Thing(msgspec.Struct):
    id: int


CODES: list[tuple[RestanteError, int, int]] = [
    (BadInput("limit", "a whole number"), 400, 5000),
    (NotAuthenticated(), 401, 5018),
    (NotAuthenticated("used twice", key="refresh_token_rotated"), 401, 10003),
    (NotAllowed(), 403, 5022),
    (NotFound(), 404, 5003),
    (Conflict("WRAP_PENDING"), 409, 40900),
    (CursorExpired("cursor_trimmed", "2-2", "1-1"), 409, 40901),
    (TooLarge(), 413, 41300),
    (WrongMediaType(), 415, 41500),
    (Unprocessable(), 422, 42200),
    (TooManyRequests(retry_after_seconds=3), 429, 5013),
    (Unavailable(retry_after_seconds=3), 503, 50300),
]


def error_body(response: ApiResponse) -> dict[str, Any]:
    body = json.loads(response.body)
    assert body.keys() == {"error"}
    assert JSON in response.headers
    assert NO_STORE in response.headers
    return dict(body["error"])


@pytest.mark.parametrize(("error", "status", "code"), CODES)
def test_each_error_has_its_status_and_code(error: RestanteError, status: int, code: int) -> None:
    response = RESPONSE_FORMAT.error(error)
    body = error_body(response)
    assert (response.status, body["code"], body["what"]) == (status, code, error.message)


def test_plain_error_has_code_and_text_only() -> None:
    assert error_body(RESPONSE_FORMAT.error(NotFound())).keys() == {"code", "what"}


def test_expired_cursor_error_has_recovery_params() -> None:
    body = error_body(RESPONSE_FORMAT.error(CursorExpired("cursor_unknown", "2-2", "1-1")))
    assert body == {
        "code": 40901,
        "what": "Cursor expired. Reset required.",
        "params": {
            "action": "full_resync",
            "reason": "cursor_unknown",
            "reset_cursor": "2-2",
            "earliest_retained_id": "1-1",
        },
    }


def test_error_key_is_included() -> None:
    rotated = NotAuthenticated("used twice", key="refresh_token_rotated")
    assert error_body(RESPONSE_FORMAT.error(rotated))["key"] == "refresh_token_rotated"


def test_unauthenticated_error_has_www_authenticate() -> None:
    assert set(challenge(NotAuthenticated())) <= set(RESPONSE_FORMAT.error(NotAuthenticated()).headers)


def test_retry_later_error_has_retry_after() -> None:
    for error in (TooManyRequests(retry_after_seconds=7), Unavailable(retry_after_seconds=7)):
        assert (b"retry-after", b"7") in RESPONSE_FORMAT.error(error).headers


def test_success_is_wrapped_in_data() -> None:
    response = RESPONSE_FORMAT.success(Thing(7), 201)
    assert (response.status, response.body) == (201, b'{"data":{"id":7}}')
    assert RESPONSE_FORMAT.success([]).body == b'{"data":[]}'
    assert NO_STORE in response.headers


def test_no_content_has_no_body() -> None:
    assert RESPONSE_FORMAT.success(Thing(7), 204) == ApiResponse(204)
