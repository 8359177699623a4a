"""Pages for people: templates, the stylesheet, errors as pages. Every value is escaped."""

from pathlib import Path
from typing import Any

from starlette.requests import Request

from restante.core.errors import RestanteError, RetryLater
from restante.web.request import ApiRequest, read_form_fields
from restante.web.response import ApiResponse, html_response
from restante.web.routes import Access, ResponseFormat, ResponseInfo, Route
from restante.web.templates import Templates

FORM_BYTES_MAX = 16 * 1024
FORM_FIELDS_MAX = 20
TAG = "pages"

_HERE = Path(__file__).parent
_templates = Templates(_HERE / "templates")
_STYLESHEET = (_HERE / "assets" / "restante.css").read_bytes()


def render(template: str, **values: Any) -> str:
    return _templates.render(template, **values)


class PageResponseFormat(ResponseFormat):
    """Writes errors as pages; successes are pages already."""

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return html_response(str(value), status)

    def error(self, error: RestanteError) -> ApiResponse:
        page = render("result.html", title="That did not work", text=error.message)
        response = html_response(page, error.status)
        if isinstance(error, RetryLater):
            return response.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
        return response


PAGE = PageResponseFormat()


def asset_routes() -> list[Route]:
    summary, responses = "The stylesheet of the pages.", (ResponseInfo(200, str, media_type="text/css"),)
    return [Route("GET", "/assets/restante.css", _stylesheet, Access.open, summary, PAGE, TAG, responses=responses)]


async def _stylesheet(_request: ApiRequest) -> ApiResponse:
    headers = ((b"content-type", b"text/css; charset=utf-8"), (b"cache-control", b"public, max-age=3600"))
    return ApiResponse(200, headers, _STYLESHEET)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form, the last value of each."""
    return dict(await read_form_fields(request, FORM_BYTES_MAX, FORM_FIELDS_MAX))
