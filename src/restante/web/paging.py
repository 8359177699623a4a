"""Lists in pages: `?limit=1..500&after=<id>` in, `{items, next}` out; `next` is the next `after`, or null."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from restante.database.connection import Row
from restante.web.ask import INT64_MAX, Ask
from restante.web.routes import Query

T = TypeVar("T")

LIMIT_DEFAULT = 100
LIMIT_MAX = 500

PAGE_QUERY = (
    Query("limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query("after", "where the page before ended: its `next`", {"type": "integer", "minimum": 0}),
)


class Window(NamedTuple):
    """Which part of a list is wanted."""

    limit: int
    after: int


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    next: int | None


def window_of(ask: Ask) -> Window:
    return Window(
        ask.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX),
        ask.query_int("after", 0, 0, INT64_MAX),
    )


def page_of(rows: Iterable[Row], window: Window, key: str, view: Callable[[Row], T]) -> Page[T]:
    """The page of rows that were read with one more than the limit: the extra one tells of a next page."""
    found = list(rows)
    shown = found[: window.limit]
    return Page([view(row) for row in shown], shown[-1][key] if len(found) > window.limit else None)


def page_of_items(found: list[T], window: Window, id_of: Callable[[T], int]) -> Page[T]:
    """As `page_of`, for what is no longer rows."""
    shown = found[: window.limit]
    return Page(shown, id_of(shown[-1]) if len(found) > window.limit else None)
