import json

import pytest

from restante.core.errors import BadInput, NotFound, RestanteError, TooLarge, TooManyRequests
from restante.events.oauth_wire import SHAPE, InvalidClient, InvalidScope, OAuthError, UnsupportedGrant


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
def test_every_error_has_oauths_shape(error: RestanteError, status: int, code: str) -> None:
    answer = SHAPE.error(error)
    assert answer.status == status
    body = json.loads(answer.body)
    assert set(body) == {"error", "error_description"}
    assert body["error"] == code
    headers = dict(answer.headers)
    assert (headers[b"cache-control"], headers[b"pragma"]) == (b"no-store", b"no-cache")
    assert headers.get(b"retry-after") == (b"7" if status == 429 else None)


def test_who_tried_with_a_header_is_challenged() -> None:
    assert b"www-authenticate" not in dict(SHAPE.error(InvalidClient()).headers)
    challenged = dict(SHAPE.error(InvalidClient(with_header=True)).headers)
    assert challenged[b"www-authenticate"].startswith(b"Basic realm=")


def test_a_description_has_only_what_oauth_allows() -> None:
    body = json.loads(SHAPE.error(OAuthError('a "quoted" \\ é\n')).body)
    assert body["error_description"] == "a 'quoted' ' ''"


def test_a_success_is_not_to_be_stored() -> None:
    answer = SHAPE.success({"a": 1})
    assert (answer.status, answer.body) == (200, b'{"a":1}')
    assert dict(answer.headers)[b"cache-control"] == b"no-store"
    assert SHAPE.envelope({"a": 1}) == {"a": 1}
