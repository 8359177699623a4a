import pytest
from starlette.requests import Request

from restante.core.errors import BadInput
from restante.database.paging import Page, PageRequest, page_of
from restante.web.paging import page_request_of
from restante.web.request import ApiRequest


def request(query: str) -> ApiRequest:
    return ApiRequest(Request({"type": "http", "query_string": query.encode(), "headers": []}), None)


@pytest.mark.parametrize(
    ("query", "page_request"),
    [
        ("", PageRequest(100, 0)),
        ("limit=1&after=7", PageRequest(1, 7)),
        ("limit=500", PageRequest(500, 0)),
    ],
)
def test_page_request_is_parsed(query: str, page_request: PageRequest) -> None:
    assert page_request_of(request(query)) == page_request


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
def test_value_out_of_range_is_refused(query: str, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        page_request_of(request(query))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("ids", "page"),
    [
        ([], Page([], None)),
        ([3, 5], Page([3, 5], None)),
        ([3, 5, 9], Page([3, 5], 5)),
    ],
)
def test_page_names_the_next(ids: list[int], page: Page[int]) -> None:
    assert page_of([{"id": id} for id in ids], PageRequest(2, 0), "id", lambda row: int(row["id"])) == page
