"""The schemas of requests and responses: every kind of result, every refusal."""

from dataclasses import replace
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest

from restante.commands.response_format import RESPONSE_FORMAT as COMMANDS_FORMAT
from restante.core.errors import RestanteError
from restante.database.paging import Page
from restante.server.docs.schemas import BodySchemas, error_reference
from restante.updates.devices.pages import PAGE
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.response import ApiResponse
from restante.web.routes import Access, Header, RequestBody, ResponseInfo, Route


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


def route_returning(result: Any, status: int = 200, response_format: Any = RESPONSE_FORMAT) -> Route:
    async def handler(_request: Any) -> Any: ...

    handler.__annotations__["return"] = result
    return Route("GET", "/post", handler, Access.open, "Look", response_format, "post", status)


def success_of(route: Route) -> dict[str, Any]:
    (response,) = BodySchemas([route]).responses(route).values()
    return response


@pytest.mark.parametrize(
    ("result", "data"),
    [
        (Letter, LETTER),
        (list[Letter], {"type": "array", "items": LETTER}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}}),
        (Letter | ApiResponse, LETTER),
        (Letter | Parcel, {"anyOf": [LETTER, PARCEL]}),
        (Letter | None, {"anyOf": [LETTER, {"type": "null"}]}),
    ],
)
def test_success_is_wrapped_into_data(result: Any, data: dict[str, Any]) -> None:
    schema = success_of(route_returning(result))["content"]["application/json"]["schema"]
    assert schema == {"type": "object", "properties": {"data": data}, "required": ["data"]}


@pytest.mark.parametrize("result", [ApiResponse, Any])
def test_response_of_handler_has_only_a_description(result: Any) -> None:
    assert success_of(route_returning(result)) == {"description": "OK"}


def test_handler_without_type_hints_has_only_a_description() -> None:
    route = route_returning(Letter)
    route.handler.__annotations__.clear()
    assert success_of(route) == {"description": "OK"}


def test_no_content_has_no_body() -> None:
    assert success_of(route_returning(None, 204)) == {"description": "No Content"}


def test_none_with_body_is_null() -> None:
    schema = success_of(route_returning(None, 200))["content"]["application/json"]["schema"]
    assert schema["properties"] == {"data": {"type": "null"}}


def test_page_is_not_described_as_json() -> None:
    assert success_of(route_returning(str, response_format=PAGE)) == {"description": "OK"}
    error = error_reference(route_returning(str, response_format=PAGE), 404)
    assert error == {"description": "Not Found", "content": {"text/html": {"schema": {"type": "string"}}}}


def test_docstrings_are_plain_text_and_patterns_portable() -> None:
    letter = BodySchemas([route_returning(Letter)]).components["Letter"]
    assert letter["description"] == "A letter.\n\nWith indented lines."
    assert letter["properties"]["text"]["pattern"] == "^[a-z]+$"
    assert letter["properties"]["description"] == {"type": "string", "default": ""}


def test_types_with_same_name_are_refused() -> None:
    other = msgspec.defstruct("Letter", [("stamp", int)], module="elsewhere")
    with pytest.raises(ValueError, match="same name"):
        BodySchemas([route_returning(Letter), route_returning(other)])


def test_generic_type_is_named_after_its_item() -> None:
    route = route_returning(Page[Letter])
    schemas = BodySchemas([route])
    assert {"Letter", "LetterPage"} <= set(schemas.components)
    assert schemas.components["LetterPage"]["title"] == "LetterPage"
    data = success_of(route)["content"]["application/json"]["schema"]["properties"]["data"]
    assert data == {"$ref": "#/components/schemas/LetterPage"}


class FreeForm(msgspec.Struct):
    anything: dict[str, Any]
    objects: dict[str, object]
    things: list[Any]
    large: int
    small: Annotated[int, msgspec.Meta(ge=0, le=9)]


def test_free_form_parts_and_number_sizes_are_spelled_out() -> None:
    properties = BodySchemas([route_returning(FreeForm)]).components["FreeForm"]["properties"]
    assert properties["anything"] == properties["objects"] == {"type": "object", "additionalProperties": True}
    assert properties["things"] == {"type": "array", "items": {}}
    assert properties["large"] == {"type": "integer", "format": "int64"}
    assert properties["small"] == {"type": "integer", "minimum": 0, "maximum": 9}


ETAG = Header("ETag", "The version.", required=True)


def test_declared_response_has_its_type_headers_and_media_types() -> None:
    declared = (
        ResponseInfo(200, Letter, (ETAG,), other_media_types=(("text/csv", str),)),
        ResponseInfo(304, headers=(ETAG,), meaning="The same version."),
    )
    route = replace(route_returning(ApiResponse), responses=declared)
    found, unchanged = BodySchemas([route]).responses(route).values()
    header = {"description": "The version.", "schema": {"type": "string"}, "required": True}
    assert found["headers"] == unchanged["headers"] == {"ETag": header}
    assert found["content"]["application/json"]["schema"]["properties"] == {"data": LETTER}
    assert found["content"]["text/csv"] == {"schema": {"type": "string"}}
    assert unchanged == {"description": "The same version.", "headers": {"ETag": header}}


def test_body_read_by_handler_has_its_type_and_media_type() -> None:
    form = RequestBody(Letter, ("application/x-www-form-urlencoded",))
    route = replace(route_returning(Parcel), request_body=form, examples=({"text": "a"},))
    assert BodySchemas([route]).request_body(route) == {
        "required": True,
        "content": {"application/x-www-form-urlencoded": {"schema": LETTER, "example": {"text": "a"}}},
    }


def test_several_examples_are_named() -> None:
    route = replace(route_returning(Parcel), request_body=RequestBody(Letter), examples=({"text": "a"}, {"text": "b"}))
    body = BodySchemas([route]).request_body(route)
    assert body is not None
    examples = body["content"]["application/json"]["examples"]
    assert examples == {"example1": {"value": {"text": "a"}}, "example2": {"value": {"text": "b"}}}


def errors_below(error_type: type[RestanteError]) -> set[type[RestanteError]]:
    return {error_type}.union(*map(errors_below, error_type.__subclasses__()))


def test_every_status_of_the_error_tree_is_described() -> None:
    route = route_returning(Letter)
    named = BodySchemas([route]).error_responses()
    statuses = {
        error_type.status
        for error_type in errors_below(RestanteError)
        if error_type.__module__ == "restante.core.errors"
    }
    for status in statuses - {500}:
        assert error_reference(route, status)["$ref"].rpartition("/")[2] in named


def test_example_of_error_is_what_is_sent() -> None:
    response = BodySchemas([route_returning(Letter)]).error_responses()["UpdatesNotFound"]
    content = response["content"]["application/json"]
    assert content["example"] == {"error": {"code": 5003, "what": "There is no such thing here."}}
    assert content["schema"] == {"$ref": "#/components/schemas/Error"}
    assert "headers" not in response


def test_errors_name_their_headers() -> None:
    errors = BodySchemas([route_returning(Letter)]).error_responses()
    assert set(errors["UpdatesNotAuthenticated"]["headers"]) == {"WWW-Authenticate"}
    assert set(errors["UpdatesTooManyRequests"]["headers"]) == {"Retry-After"}
    assert set(errors["UpdatesUnavailable"]["headers"]) == {"Retry-After"}


def test_key_and_params_of_error_are_optional() -> None:
    detail = BodySchemas([route_returning(Letter)]).components["ErrorDetail"]
    assert set(detail["properties"]) == {"code", "what", "key", "params"}
    assert detail["required"] == ["code", "what"]


def test_status_outside_error_tree_has_only_a_description() -> None:
    assert error_reference(route_returning(Letter), 304) == {"description": "Not Modified"}


def test_each_protocol_has_its_own_format() -> None:
    command = replace(route_returning(Letter), response_format=COMMANDS_FORMAT, path="/command")
    schemas = BodySchemas([route_returning(Letter), command])
    letter = {"$ref": "#/components/schemas/Letter"}
    assert schemas.responses(command)["200"]["content"]["application/json"]["schema"] == letter
    assert success_of(route_returning(Letter))["content"]["application/json"]["schema"]["properties"] == {
        "data": letter
    }
    example = schemas.error_responses()["CommandsNotFound"]["content"]["application/json"]["example"]
    assert example == {"error": "NOT_FOUND", "message": "There is no such thing here."}
    assert error_reference(command, 404) == {"$ref": "#/components/responses/CommandsNotFound"}
