"""Paging over HTTP: `?limit=1..500&after=<id>` in the query, `{items, next}` in the response."""

from restante.core.decoding import INT64_MAX
from restante.database.paging import PageRequest
from restante.web.request import ApiRequest
from restante.web.routes import Query

LIMIT_DEFAULT = 100
LIMIT_MAX = 500

PAGE_QUERY = (
    Query("limit", "the most items to return", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query("after", "the `next` of the previous page", {"type": "integer", "minimum": 0, "maximum": INT64_MAX}),
)


def page_request_of(request: ApiRequest) -> PageRequest:
    return PageRequest(
        request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX),
        request.query_int("after", 0, 0, INT64_MAX),
    )
