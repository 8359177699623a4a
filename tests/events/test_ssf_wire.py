"""The error body of shared signals, and the headers that go with it."""

import json

import pytest

from restante.core.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooManyRequests,
)
from restante.events.ssf_wire import SHAPE


@pytest.mark.parametrize(
    ("error", "status", "err"),
    [
        (BadInput("subject", "an object"), 400, "invalid_request"),
        (NotAuthenticated(), 401, "authentication_failed"),
        (NotAllowed(), 403, "access_denied"),
        (NotFound(), 404, "not_found"),
        (Conflict(), 409, "conflict"),
        (TooManyRequests(retry_after_seconds=7), 429, "too_many_requests"),
        (RestanteError(), 500, "server_error"),
    ],
)
def test_every_error_has_its_code(error: RestanteError, status: int, err: str) -> None:
    answer = SHAPE.error(error)
    assert answer.status == status
    assert json.loads(answer.body) == {"err": err, "description": error.message}


def test_headers_of_errors() -> None:
    assert (b"www-authenticate", b"Bearer") in SHAPE.error(NotAuthenticated()).headers
    assert (b"retry-after", b"7") in SHAPE.error(TooManyRequests(retry_after_seconds=7)).headers


def test_a_success_is_the_object_itself() -> None:
    assert SHAPE.success({"a": 1}).body == b'{"a":1}'
    assert SHAPE.success(None, 204).body == b""
    assert SHAPE.envelope({"type": "object"}) == {"type": "object"}
