"""The response format of device updates: `{"data": …}`, `{"error": {"code", "what"[, "key", "params"]}}`, and codes.

Lists that agents and scripts in the field read are arrays in `data`; the next page is named in headers. With
`?page=object` they are `{items, next}`, as all other lists are.
"""

from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput, CursorExpired, NotAuthenticated, RestanteError, RetryLater
from restante.database.paging import Page
from restante.web.errors.challenges import challenge
from restante.web.paging import PAGE_QUERY
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse, json_response
from restante.web.routes import Header, JsonFormat, Query, ResponseInfo

INVALID_ARGUMENT = 5000
NOT_FOUND = 5003
RATE_LIMITED = 5013
UNAUTHORIZED = 5018
FORBIDDEN = 5022
CURSOR_EXPIRED = 40901
REFRESH_TOKEN_ROTATED = 10003

# An error without a code in the contract gets its status followed by two digits, in the pattern of 40901.
_CODES = {400: INVALID_ARGUMENT, 401: UNAUTHORIZED, 403: FORBIDDEN, 404: NOT_FOUND, 429: RATE_LIMITED, 409: 40900}
REFRESH_ROTATED_KEY = "refresh_token_rotated"

_encoder = msgspec.json.Encoder()


class ErrorDetail(msgspec.Struct):
    code: Annotated[int, Meta(description="The error, for programs.", examples=[5000])]
    what: Annotated[str, Meta(description="The error, for people.")]
    key: Annotated[str, Meta(description="The error as one word, where it has one.")] | UnsetType = UNSET
    params: Annotated[dict[str, Any], Meta(description="How to recover.")] | UnsetType = UNSET


class Error(msgspec.Struct):
    """The body of every error."""

    error: ErrorDetail


class UpdatesResponseFormat(JsonFormat):
    """The success and error bodies of protocol 1, which are also the server's own."""

    name = "Updates"
    error_type = Error

    def success_schema(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": {"data": data}, "required": ["data"]}

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        if status == 204:
            return ApiResponse(204)
        return json_response(_encoder.encode({"data": value}), status)

    def error(self, error: RestanteError) -> ApiResponse:
        body: dict[str, Any] = {"code": error_code(error), "what": error.message}
        if isinstance(error, CursorExpired):
            body["params"] = error.params
        if isinstance(error, NotAuthenticated) and error.key:
            body["key"] = error.key
        response = json_response(_encoder.encode({"error": body}), error.status)
        if challenged := challenge(error):
            return response.with_headers(*challenged)
        if isinstance(error, RetryLater):
            return response.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
        return response


def error_code(error: RestanteError) -> int:
    if isinstance(error, CursorExpired):
        return CURSOR_EXPIRED
    if isinstance(error, NotAuthenticated) and error.key == REFRESH_ROTATED_KEY:
        return REFRESH_TOKEN_ROTATED
    return _CODES.get(error.status, error.status * 100)


RESPONSE_FORMAT = UpdatesResponseFormat()

_SHAPES = ("array", "object")
LIST_QUERY = (
    *PAGE_QUERY,
    Query("page", "`object`: the response is `{items, next}`", {"type": "string", "enum": list(_SHAPES)}),
)

_LIST_HEADERS = (
    Header("Link", 'The address of the next page, `<…>; rel="next"`, if there is one.'),
    Header("X-Next-After", "The `after` of the next page, if there is one.", {"type": "integer"}),
)


def list_info(item: type[Any]) -> ResponseInfo:
    """The documentation of a list of these items."""
    return ResponseInfo(200, list[item] | Page[item], _LIST_HEADERS)  # type: ignore[valid-type]


def list_response(request: ApiRequest, page: Page[Any]) -> ApiResponse:
    """The page as an array and, if there is a next one, its address in `Link` and its `after` in `X-Next-After`."""
    shape = request.query_text("page")
    if shape not in (None, *_SHAPES):
        raise BadInput("page", " or ".join(_SHAPES))
    if shape == "object":
        return RESPONSE_FORMAT.success(page)
    response = RESPONSE_FORMAT.success(page.items)
    if page.next is None:
        return response
    link = f'<{_next_target(request, page.next)}>; rel="next"'
    return response.with_headers((b"link", link.encode("ascii")), (b"x-next-after", b"%d" % page.next))


def _next_target(request: ApiRequest, after: int) -> str:
    """The address of the next page, without the host: behind a proxy only the client knows that."""
    query = [(name, value) for name, value in request.http.query_params.multi_items() if name != "after"]
    return f"{request.http.url.path}?{urlencode([*query, ('after', str(after))])}"
