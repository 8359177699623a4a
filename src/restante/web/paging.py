"""Lists over HTTP: pages, filters in the query, and exports that are sent in parts.

Pages: `?limit=1..500&after=<id>` in the query, `{items, next}` in the response.

A parameter that the route does not have is refused: a misspelt filter would show everything.

A spreadsheet runs a cell that begins with `=` or a similar character as a formula. Such a cell gets a leading
apostrophe, which makes spreadsheets show it as text.
"""

import csv
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from restante.core.decoding import INT64_MAX, suggestion
from restante.core.errors import BadInput, UnknownField
from restante.core.iso_time import parse_moment
from restante.database.lists.long_counts import Counting
from restante.database.paging import Page, PageRequest
from restante.web.request import ApiRequest
from restante.web.response import JSON, NO_STORE, ApiResponse
from restante.web.routes import Header, Query, ResponseInfo

T = TypeVar("T", bound=msgspec.Struct)
Result = TypeVar("Result")


class CountsLists(Protocol):
    """A database, of the server or of a user."""

    async def count(self, key: Hashable, make: Callable[[], Counting[Result]]) -> Result: ...


LIMIT_DEFAULT = 100
LIMIT_MAX = 500

PAGE_QUERY = (
    Query("limit", "the most items to return", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query("after", "the `next` of the previous page", {"type": "integer", "minimum": 0, "maximum": INT64_MAX}),
)

FORMATS = ("csv", "json")
EXPORT_ROWS = 500
# Characters that start a formula: also white space that spreadsheets skip, and full-width forms that some accept.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# Spreadsheets recognise UTF-8 by the byte order mark.
_BYTE_ORDER_MARK = "\ufeff"

TIME: dict[str, Any] = {
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": "^[0-9]{1,9}[smhdw]$"}],
    "examples": ["1h", "2026-01-18T10:00:00.250Z"],
}
FORMAT = Query("format", "the format of the file", {"type": "string", "enum": list(FORMATS), "default": "csv"})
_FILE = (Header("Content-Disposition", "The name of the file.", required=True),)

FileFormat = Literal["csv", "json"]


def page_request_of(request: ApiRequest) -> PageRequest:
    return PageRequest(
        request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX),
        request.query_int("after", 0, 0, INT64_MAX),
    )


def check_filters(request: ApiRequest, queries: Sequence[Query]) -> None:
    """Raise UnknownField for a query parameter that the route does not have."""
    known = [query.name for query in queries]
    for name in request.http.query_params:
        if name not in known:
            raise UnknownField(name[:100], suggestion(name, known))


def query_moment(request: ApiRequest, name: str) -> int | None:
    """A time of the query, in milliseconds since the epoch; None if it is not given."""
    text = request.query_text(name)
    # The clock of this machine is close enough for "an hour ago".
    return None if text is None else parse_moment(text, name, int(time.time() * 1000))


def query_choice(request: ApiRequest, name: str, choices: Iterable[str]) -> str | None:
    text = request.query_text(name)
    known = list(choices)
    if text is not None and text not in known:
        raise BadInput(name, f"one of {', '.join(known)}{suggestion(text, known)}")
    return text


def query_prefix(request: ApiRequest, name: str) -> str | None:
    """A text that is not empty; None if it is not given."""
    text = request.query_text(name)
    if text is not None and (not text or "\0" in text):
        raise BadInput(name, "at least one character")
    return text


async def counted(request: ApiRequest, counts: CountsLists, make: Callable[[], Counting[Result]]) -> Result:
    """Count the list that the request filters."""
    query = sorted(request.http.query_params.multi_items())
    return await counts.count((request.http.url.path, tuple(query), request.allowed), make)


def export_info(row_type: Any) -> ResponseInfo:
    return ResponseInfo(200, str, _FILE, "text/csv", other_media_types=(("application/json", list[row_type]),))


async def export(
    request: ApiRequest, name: str, row_type: type[T], read: Callable[[PageRequest], Awaitable[Page[T]]]
) -> ApiResponse:
    """All items of a list as a file, page by page. `read` refuses what is wrong with the filter at its first call."""
    file_format = query_choice(request, "format", FORMATS) or FORMATS[0]
    first = await read(PageRequest(EXPORT_ROWS, 0))
    pages = _pages(first, read)
    kind = JSON if file_format == "json" else (b"content-type", b"text/csv; charset=utf-8; header=present")
    attachment = (b"content-disposition", f'attachment; filename="{name}.{file_format}"'.encode())
    parts = _json_parts(pages) if file_format == "json" else _csv_parts(pages, row_type)
    return ApiResponse(200, (kind, NO_STORE, attachment), stream=parts)


async def _pages(first: Page[T], read: Callable[[PageRequest], Awaitable[Page[T]]]) -> AsyncIterator[list[T]]:
    page = first
    while True:
        if page.items:
            yield page.items
        if page.next is None:
            return
        page = await read(PageRequest(EXPORT_ROWS, page.next))


async def _csv_parts(pages: AsyncIterator[list[T]], row_type: type[T]) -> AsyncIterator[bytes]:
    names = row_type.__struct_fields__
    yield (_BYTE_ORDER_MARK + _csv_lines([names])).encode()
    async for page in pages:
        yield _csv_lines([_cell(getattr(row, name)) for name in names] for row in page).encode()


async def _json_parts(pages: AsyncIterator[list[T]]) -> AsyncIterator[bytes]:
    separator = b"[\n"
    async for page in pages:
        for row in page:
            yield separator + msgspec.json.encode(row)
            separator = b",\n"
    yield b"[]\n" if separator == b"[\n" else b"\n]\n"


def _csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        value = " ".join(str(each) for each in value)
    if isinstance(value, msgspec.Raw):
        value = bytes(value).decode()
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
