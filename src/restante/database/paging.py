"""Pages of lists: a request for one part of a list, and that part.

Every list is ordered by an integer key. A query reads one row more than the limit; that row shows whether there is a
next page. A list with large rows is read in steps (`read_page`): its pages are bounded by bytes as well.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from restante.database.connection import Row

T = TypeVar("T")

# The text in the rows of one page. A page has at least one row, however large that is.
PAGE_BYTES_MAX = 1024 * 1024
# Rows of the first step, and of the largest: bounds how much a page reads that it does not return.
STEP_ROWS = 32
STEP_ROWS_MAX = 128


@dataclass(frozen=True, slots=True)
class PageRequest:
    """At most `limit` items that come after the item with the key `after`."""

    limit: int
    after: int


class Page(msgspec.Struct, Generic[T]):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[T]
    next: int | None


def page_of(rows: Iterable[Row], page: PageRequest, key: str, view: Callable[[Row], T]) -> Page[T]:
    """Make a page of the rows that a query read, one more than the limit."""
    found = list(rows)
    shown = found[: page.limit]
    return Page([view(row) for row in shown], shown[-1][key] if len(found) > page.limit else None)


def read_page(
    read: Callable[[int, int], Sequence[Row]],
    page: PageRequest,
    key: str,
    view: Callable[[Row], T],
    bytes_max: int = PAGE_BYTES_MAX,
) -> Page[T]:
    """Make a page of rows that may be large. `read` gets the `after` of the rows to read, and their number."""
    shown: list[Row] = []
    size, after = 0, page.after
    while True:
        step = min(max(STEP_ROWS, len(shown)), STEP_ROWS_MAX, page.limit + 1 - len(shown))
        rows = read(after, step)
        for row in rows:
            size += _text_bytes(row)
            if shown and (len(shown) == page.limit or size > bytes_max):
                return Page([view(each) for each in shown], shown[-1][key])
            shown.append(row)
        if len(rows) < step:
            return Page([view(each) for each in shown], None)
        after = rows[-1][key]


def _text_bytes(row: Row) -> int:
    # A row of SQLite iterates over its values.
    return sum(len(value) for name in row.keys() if isinstance(value := row[name], str | bytes))  # noqa: SIM118


def page_of_items(found: list[T], page: PageRequest, id_of: Callable[[T], int]) -> Page[T]:
    """Like `page_of`, for items that are not rows any more."""
    shown = found[: page.limit]
    return Page(shown, id_of(shown[-1]) if len(found) > page.limit else None)
