"""Idempotency over HTTP: the `Idempotency-Key` header, and the header that marks a replayed response."""

from restante.identity.idempotency import KEY_CHARACTERS_MAX, IdempotentResult, checked_key
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse, json_response
from restante.web.routes import Header

KEY_HEADER = Header(
    "Idempotency-Key",
    "The same request sent again with the same key gets the first response and changes nothing.",
    {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS_MAX, "pattern": "^[ -~]+$"},
)
REPLAYED_HEADER = Header(
    "Idempotency-Replayed",
    "Present if this is the response to an earlier request with the same key.",
    {"type": "string", "enum": ["true"]},
)


def key_of(request: ApiRequest) -> str | None:
    """The request's `Idempotency-Key`, if it has one."""
    key = request.http.headers.get("idempotency-key")
    return None if key is None else checked_key(key)


def created_response(result: IdempotentResult, status: int = 201) -> ApiResponse:
    response = json_response(result.json, status)
    return response.with_headers((b"idempotency-replayed", b"true")) if result.is_replayed else response
