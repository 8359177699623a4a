"""The error body and the error headers of Shared Signals."""

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
from restante.events.ssf.response_format import RESPONSE_FORMAT
from restante.web.errors.challenges import challenge


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
    response = RESPONSE_FORMAT.error(error)
    assert response.status == status
    assert json.loads(response.body) == {"err": err, "description": error.message}


def test_errors_have_challenge_and_retry_after() -> None:
    assert set(challenge(NotAuthenticated())) <= set(RESPONSE_FORMAT.error(NotAuthenticated()).headers)
    assert (b"retry-after", b"7") in RESPONSE_FORMAT.error(TooManyRequests(retry_after_seconds=7)).headers


def test_success_is_the_object_itself() -> None:
    assert RESPONSE_FORMAT.success({"a": 1}).body == b'{"a":1}'
    assert RESPONSE_FORMAT.success(None, 204).body == b""
    assert RESPONSE_FORMAT.success_schema({"type": "object"}) == {"type": "object"}
