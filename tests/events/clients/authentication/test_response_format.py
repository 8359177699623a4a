import json

import pytest

from restante.core.errors import BadInput, NotFound, RestanteError, TooLarge, TooManyRequests
from restante.events.clients.authentication.oauth_errors import (
    InvalidClient,
    InvalidScope,
    OAuthError,
    UnsupportedGrant,
)
from restante.events.clients.authentication.response_format import RESPONSE_FORMAT


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OAuthError("x"), 400, "invalid_request"),
        (InvalidScope(), 400, "invalid_scope"),
        (UnsupportedGrant(), 400, "unsupported_grant_type"),
        (InvalidClient(), 401, "invalid_client"),
        (BadInput("Host", "a host"), 400, "invalid_request"),
        (TooLarge(), 413, "invalid_request"),
        (NotFound(), 404, "invalid_request"),
        (TooManyRequests(retry_after_seconds=7), 429, "temporarily_unavailable"),
        (RestanteError(), 500, "server_error"),
    ],
)
def test_every_error_has_the_oauth_body(error: RestanteError, status: int, code: str) -> None:
    response = RESPONSE_FORMAT.error(error)
    assert response.status == status
    body = json.loads(response.body)
    assert set(body) == {"error", "error_description"}
    assert body["error"] == code
    headers = dict(response.headers)
    assert (headers[b"cache-control"], headers[b"pragma"]) == (b"no-store", b"no-cache")
    assert headers.get(b"retry-after") == (b"7" if status == 429 else None)


def test_authorization_header_gets_a_challenge() -> None:
    assert b"www-authenticate" not in dict(RESPONSE_FORMAT.error(InvalidClient()).headers)
    challenged = dict(RESPONSE_FORMAT.error(InvalidClient(with_header=True)).headers)
    assert challenged[b"www-authenticate"].startswith(b"Basic realm=")


def test_description_has_only_allowed_characters() -> None:
    body = json.loads(RESPONSE_FORMAT.error(OAuthError('a "quoted" \\ é\n')).body)
    assert body["error_description"] == "a 'quoted' ' ''"


def test_success_is_not_cacheable() -> None:
    response = RESPONSE_FORMAT.success({"a": 1})
    assert (response.status, response.body) == (200, b'{"a":1}')
    assert dict(response.headers)[b"cache-control"] == b"no-store"
    assert RESPONSE_FORMAT.success_schema({"a": 1}) == {"a": 1}
