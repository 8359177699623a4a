"""What routes take and give, as schemas: every kind of result, every refusal."""

from dataclasses import replace
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest

from restante.commands.wire import SHAPE as COMMANDS_SHAPE
from restante.core.errors import RestanteError
from restante.server.schemas import WireSchemas, refusal
from restante.updates.pages import PAGE
from restante.updates.wire import SHAPE
from restante.web.answer import Answer
from restante.web.routes import Access, Route


class Color(Enum):
    red = "red"


class Letter(msgspec.Struct):
    """A letter.

    With indented lines.
    """

    text: Annotated[str, msgspec.Meta(pattern=r"\A[a-z]+\Z")]
    color: Color = Color.red
    description: str = ""


class Parcel(msgspec.Struct):
    weight: int


LETTER = {"$ref": "#/components/schemas/Letter"}
PARCEL = {"$ref": "#/components/schemas/Parcel"}


def giving(result: Any, status: int = 200, shape: Any = SHAPE) -> Route:
    async def handler(_ask: Any) -> Any: ...

    handler.__annotations__["return"] = result
    return Route("GET", "/post", handler, Access.open, "Look", shape, "post", status)


def success_of(route: Route) -> dict[str, Any]:
    return WireSchemas([route]).success(route)


@pytest.mark.parametrize(
    ("result", "data"),
    [
        (Letter, LETTER),
        (list[Letter], {"type": "array", "items": LETTER}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Letter | Answer, LETTER),
        (Letter | Parcel, {"anyOf": [LETTER, PARCEL]}),
        (Letter | None, {"anyOf": [LETTER, {"type": "null"}]}),
    ],
)
def test_a_success_is_wrapped_into_data(result: Any, data: dict[str, Any]) -> None:
    schema = success_of(giving(result))["content"]["application/json"]["schema"]
    assert schema == {"type": "object", "properties": {"data": data}, "required": ["data"]}


@pytest.mark.parametrize("result", [Answer, Any])
def test_an_answer_of_the_handlers_own_has_a_description_only(result: Any) -> None:
    assert success_of(giving(result)) == {"description": "OK"}


def test_a_handler_without_hints_has_a_description_only() -> None:
    route = giving(Letter)
    route.handler.__annotations__.clear()
    assert success_of(route) == {"description": "OK"}


def test_no_content_has_no_body() -> None:
    assert success_of(giving(None, 204)) == {"description": "No Content"}


def test_nothing_with_a_body_is_null() -> None:
    schema = success_of(giving(None, 200))["content"]["application/json"]["schema"]
    assert schema["properties"] == {"data": {"type": "null"}}


def test_a_page_is_not_described_as_json() -> None:
    assert success_of(giving(str, shape=PAGE)) == {"description": "OK"}
    assert refusal(giving(str, shape=PAGE), 404) == {"description": "Not Found"}


def test_docstrings_become_plain_text_and_patterns_portable() -> None:
    letter = WireSchemas([giving(Letter)]).components["Letter"]
    assert letter["description"] == "A letter.\n\nWith indented lines."
    assert letter["properties"]["text"]["pattern"] == "^[a-z]+$"
    assert letter["properties"]["description"] == {"type": "string", "default": ""}


def test_two_types_of_one_name_have_two_schemas() -> None:
    other = msgspec.defstruct("Letter", [("stamp", int)], module="elsewhere")
    components = WireSchemas([giving(Letter), giving(other)]).components
    assert {frozenset(each["properties"]) for name, each in components.items() if "Letter" in name} == {
        frozenset({"text", "color", "description"}),
        frozenset({"stamp"}),
    }


def errors_below(kind: type[RestanteError]) -> set[type[RestanteError]]:
    return {kind}.union(*map(errors_below, kind.__subclasses__()))


def test_every_status_of_the_error_tree_is_described() -> None:
    route = giving(Letter)
    named = WireSchemas([route]).refusals()
    statuses = {kind.status for kind in errors_below(RestanteError) if kind.__module__ == "restante.core.errors"}
    for status in statuses - {500}:
        assert refusal(route, status)["$ref"].rpartition("/")[2] in named


def test_a_refusals_example_is_what_is_sent() -> None:
    refused = WireSchemas([giving(Letter)]).refusals()["UpdatesNotFound"]
    content = refused["content"]["application/json"]
    assert content["example"] == {"error": {"code": 5003, "what": "There is no such thing here."}}
    assert content["schema"] == {"$ref": "#/components/schemas/Error"}
    assert "headers" not in refused


def test_refusals_name_their_headers() -> None:
    refusals = WireSchemas([giving(Letter)]).refusals()
    assert set(refusals["UpdatesNotAuthenticated"]["headers"]) == {"www-authenticate"}
    assert set(refusals["UpdatesTooManyRequests"]["headers"]) == {"retry-after"}
    assert set(refusals["UpdatesUnavailable"]["headers"]) == {"retry-after"}


def test_key_and_params_of_an_error_may_be_absent() -> None:
    detail = WireSchemas([giving(Letter)]).components["ErrorDetail"]
    assert set(detail["properties"]) == {"code", "what", "key", "params"}
    assert detail["required"] == ["code", "what"]


def test_a_status_outside_the_tree_has_a_description_only() -> None:
    assert refusal(giving(Letter), 304) == {"description": "Not Modified"}


def test_each_protocol_has_its_own_shape() -> None:
    command = replace(giving(Letter), shape=COMMANDS_SHAPE, path="/command")
    schemas = WireSchemas([giving(Letter), command])
    letter = {"$ref": "#/components/schemas/Letter"}
    assert schemas.success(command)["content"]["application/json"]["schema"] == letter
    assert schemas.success(giving(Letter))["content"]["application/json"]["schema"]["properties"] == {"data": letter}
    example = schemas.refusals()["CommandsNotFound"]["content"]["application/json"]["example"]
    assert example == {"error": "NOT_FOUND", "message": "There is no such thing here."}
    assert refusal(command, 404) == {"$ref": "#/components/responses/CommandsNotFound"}
