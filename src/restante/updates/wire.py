"""How device updates are written: `{"data": …}`, `{"error": {"code", "what"[, "key", "params"]}}`, and their codes."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import ComeBackLater, CursorExpired, NotAuthenticated, RestanteError
from restante.web.answer import Answer, json_answer

INVALID_ARGUMENT = 5000
NOT_FOUND = 5003
RATE_LIMITED = 5013
UNAUTHORIZED = 5018
FORBIDDEN = 5022
CURSOR_EXPIRED = 40901
REFRESH_TOKEN_ROTATED = 10003

# What the contract names no code for gets the status with two digits behind it, as it does itself in 40901.
_CODES = {400: INVALID_ARGUMENT, 401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 429: RATE_LIMITED, 409: 40900}
REFRESH_ROTATED_KEY = "refresh_token_rotated"

_encoder = msgspec.json.Encoder()


class ErrorDetail(msgspec.Struct):
    code: Annotated[int, Meta(description="What went wrong, for programs.", examples=[5000])]
    what: Annotated[str, Meta(description="What went wrong, for people.")]
    key: Annotated[str, Meta(description="The same in a word, where there is one.")] | UnsetType = UNSET
    params: Annotated[dict[str, Any], Meta(description="How to recover.")] | UnsetType = UNSET


class Error(msgspec.Struct):
    """Every refusal."""

    error: ErrorDetail


class UpdatesShape:
    """The success and error bodies of protocol 1, which are also the server's own."""

    name = "Updates"
    error_type = Error

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": {"data": data}, "required": ["data"]}

    def success(self, value: Any, status: int = 200) -> Answer:
        if status == 204:
            return Answer(204)
        return json_answer(_encoder.encode({"data": value}), status)

    def error(self, error: RestanteError) -> Answer:
        body: dict[str, Any] = {"code": error_code(error), "what": error.message}
        if isinstance(error, CursorExpired):
            body["params"] = error.params
        if isinstance(error, NotAuthenticated) and error.key:
            body["key"] = error.key
        answer = json_answer(_encoder.encode({"error": body}), error.status)
        if isinstance(error, NotAuthenticated):
            return answer.with_headers((b"www-authenticate", b"Bearer"))
        if isinstance(error, ComeBackLater):
            return answer.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
        return answer


def error_code(error: RestanteError) -> int:
    if isinstance(error, CursorExpired):
        return CURSOR_EXPIRED
    if isinstance(error, NotAuthenticated) and error.key == REFRESH_ROTATED_KEY:
        return REFRESH_TOKEN_ROTATED
    return _CODES.get(error.status, error.status * 100)


SHAPE = UpdatesShape()
