import pytest
from starlette.requests import Request

from restante.core.errors import BadInput
from restante.web.ask import Ask
from restante.web.paging import Page, Window, page_of, window_of


def ask(query: str) -> Ask:
    return Ask(Request({"type": "http", "query_string": query.encode(), "headers": []}), None)


@pytest.mark.parametrize(
    ("query", "window"),
    [
        ("", Window(100, 0)),
        ("limit=1&after=7", Window(1, 7)),
        ("limit=500", Window(500, 0)),
    ],
)
def test_the_window_asked_for(query: str, window: Window) -> None:
    assert window_of(ask(query)) == window


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("after=-1", "after"),
        ("after=9223372036854775808", "after"),
    ],
)
def test_nothing_is_clamped(query: str, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        window_of(ask(query))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("ids", "page"),
    [
        ([], Page([], None)),
        ([3, 5], Page([3, 5], None)),
        ([3, 5, 9], Page([3, 5], 5)),
    ],
)
def test_a_page_tells_of_the_next(ids: list[int], page: Page[int]) -> None:
    assert page_of([{"id": id} for id in ids], Window(2, 0), "id", lambda row: int(row["id"])) == page
