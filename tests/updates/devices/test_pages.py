from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request

from restante.core.errors import BadInput, NotFound, TooLarge, TooManyRequests, WrongMediaType
from restante.database.database import Database
from restante.updates.devices.pages import FORM_BYTES_MAX, PAGE, read_form, render
from tests.conftest import ManualClock
from tests.updates.auth_app import serving


def posted(body: bytes, media_type: bytes = b"application/x-www-form-urlencoded") -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": [(b"content-type", media_type)]}, receive)


async def test_form_is_read() -> None:
    assert await read_form(posted(b"a=1&b=%C3%A4+%26&a=2&empty=")) == {"a": "2", "b": "ä &", "empty": ""}
    assert await read_form(posted(b"")) == {}


async def test_invalid_form_is_refused() -> None:
    with pytest.raises(WrongMediaType):
        await read_form(posted(b"{}", b"application/json"))
    with pytest.raises(TooLarge):
        await read_form(posted(b"a=" + b"x" * FORM_BYTES_MAX))
    with pytest.raises(BadInput):
        await read_form(posted(b"&".join([b"a=1"] * 21)))
    with pytest.raises(BadInput):
        await read_form(posted(b"a=\xff"))


def test_values_in_pages_are_escaped() -> None:
    page = render("result.html", title="<b>", text="<script>")
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_errors_are_pages_with_their_status() -> None:
    response = PAGE.error(NotFound("nothing <here>"))
    assert response.status == 404
    assert b"Nothing &lt;here&gt;." in response.body
    assert (b"content-type", b"text/html; charset=utf-8") in response.headers
    later = PAGE.error(TooManyRequests(retry_after_seconds=7))
    assert (b"retry-after", b"7") in later.headers


def test_successes_are_pages() -> None:
    assert PAGE.success("<p>", 200).body == b"<p>"


@pytest.fixture
async def stylesheet(database: Database, clock: ManualClock) -> AsyncIterator[str]:
    async with serving(database, clock) as app, app.client() as client:
        response = await client.get("/assets/restante.css")
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/css; charset=utf-8"
        yield response.text


async def test_stylesheet_loads_no_external_resources(stylesheet: str) -> None:
    assert "button.main" in stylesheet
    assert "url(" not in stylesheet
    assert "@import" not in stylesheet
