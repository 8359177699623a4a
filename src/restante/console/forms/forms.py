"""Forms that a browser posts: their fields, read with bounds."""

import json
from typing import Any

from starlette.requests import Request

from restante.core.decoding import INT64_MAX, parse_int
from restante.core.errors import BadInput
from restante.web.request import read_form_fields

FORM_BYTES_MAX = 1024 * 1024
FORM_FIELDS_MAX = 2000


class Form:
    """The fields of a posted form. A field may occur several times."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields

    def text(self, name: str, characters_max: int = 10_000) -> str:
        """The last value of the field; empty if it is missing. Line ends are single newlines."""
        values = [value for each, value in self.fields if each == name]
        text = values[-1].replace("\r\n", "\n") if values else ""
        if len(text) > characters_max or "\x00" in text:
            raise BadInput(name, f"at most {characters_max} characters")
        return text

    def required(self, name: str, characters_max: int = 10_000) -> str:
        text = self.text(name, characters_max).strip()
        if not text:
            raise BadInput(name, "a value, it is required")
        return text

    def texts(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each == name]

    def whole_number(self, name: str, least: int = 1, most: int = INT64_MAX) -> int:
        return parse_int(name, self.text(name, 30).strip(), least, most)

    def optional_number(self, name: str, least: int = 1, most: int = INT64_MAX) -> int | None:
        return self.whole_number(name, least, most) if self.text(name, 30).strip() else None

    def json(self, name: str, characters_max: int = 500_000) -> Any:
        """The value of a field that holds JSON."""
        try:
            return json.loads(self.text(name, characters_max))
        except (ValueError, RecursionError) as error:
            raise BadInput(name, f"valid JSON ({error})") from None


async def read_form(request: Request) -> Form:
    return Form(await read_form_fields(request, FORM_BYTES_MAX, FORM_FIELDS_MAX))
