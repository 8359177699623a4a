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
from restante.updates.wire import SHAPE
from restante.web.answer import JSON, NO_STORE, Answer


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


def error_body(answer: Answer) -> dict[str, Any]:
    body = json.loads(answer.body)
    assert body.keys() == {"error"}
    assert JSON in answer.headers
    assert NO_STORE in answer.headers
    return dict(body["error"])


@pytest.mark.parametrize(("error", "status", "code"), CODES)
def test_each_error_has_its_status_and_code(error: RestanteError, status: int, code: int) -> None:
    answer = SHAPE.error(error)
    body = error_body(answer)
    assert (answer.status, body["code"], body["what"]) == (status, code, error.message)


def test_an_error_says_no_more_than_it_must() -> None:
    assert error_body(SHAPE.error(NotFound())).keys() == {"code", "what"}


def test_an_expired_cursor_carries_what_a_client_needs_to_recover() -> None:
    body = error_body(SHAPE.error(CursorExpired("cursor_unknown", "2-2", "1-1")))
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


def test_a_key_is_told_where_there_is_one() -> None:
    rotated = NotAuthenticated("used twice", key="refresh_token_rotated")
    assert error_body(SHAPE.error(rotated))["key"] == "refresh_token_rotated"


def test_who_is_not_known_is_told_how_to_be() -> None:
    assert (b"www-authenticate", b"Bearer") in SHAPE.error(NotAuthenticated()).headers


def test_who_is_to_come_back_is_told_when() -> None:
    for error in (TooManyRequests(retry_after_seconds=7), Unavailable(retry_after_seconds=7)):
        assert (b"retry-after", b"7") in SHAPE.error(error).headers


def test_a_success_is_wrapped() -> None:
    answer = SHAPE.success(Thing(7), 201)
    assert (answer.status, answer.body) == (201, b'{"data":{"id":7}}')
    assert SHAPE.success([]).body == b'{"data":[]}'
    assert NO_STORE in answer.headers


def test_no_content_has_none() -> None:
    assert SHAPE.success(Thing(7), 204) == Answer(204)
