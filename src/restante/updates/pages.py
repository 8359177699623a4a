"""Pages for people: templates, what they look like, and errors as pages. Every value in a page is escaped."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

from restante.core.errors import BadInput, ComeBackLater, RestanteError, WrongMediaType
from restante.web.answer import Answer, html_answer
from restante.web.ask import Ask, read_body
from restante.web.routes import Access, Route
from restante.web.templates import Templates

FORM_BYTES_MAX = 16 * 1024
FORM_FIELDS_MAX = 20
TAG = "pages"

_HERE = Path(__file__).parent
_templates = Templates(_HERE / "templates")
_STYLESHEET = (_HERE / "assets" / "restante.css").read_bytes()


def render(template: str, **values: Any) -> str:
    return _templates.render(template, **values)


class PageShape:
    """Successes are pages already; errors become one."""

    def success(self, value: Any, status: int = 200) -> Answer:
        return html_answer(str(value), status)

    def error(self, error: RestanteError) -> Answer:
        answer = html_answer(render("result.html", title="That did not work", text=error.message), error.status)
        if isinstance(error, ComeBackLater):
            return answer.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
        return answer


PAGE = PageShape()


def asset_routes() -> list[Route]:
    return [Route("GET", "/assets/restante.css", _stylesheet, Access.open, "What the pages look like.", PAGE, TAG)]


async def _stylesheet(_ask: Ask) -> Answer:
    headers = ((b"content-type", b"text/css; charset=utf-8"), (b"cache-control", b"public, max-age=3600"))
    return Answer(200, headers, _STYLESHEET)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form, the last value of each."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise WrongMediaType("the request body must be a form")
    raw = await read_body(request, FORM_BYTES_MAX)
    try:
        fields = parse_qs(raw.decode("ascii"), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
    except ValueError:
        raise BadInput("body", f"a form of at most {FORM_FIELDS_MAX} fields") from None
    return {name: values[-1] for name, values in fields.items()}
