"""JSON Schemas of request bodies, success bodies and error bodies, each in the response format of its protocol.

This module knows types and errors, not paths or access. All schemas are made at once. The response format itself
writes the examples of errors, so an example cannot differ from what is sent.

Invariants: the name of a schema is the name of its type, so names stay the same as long as the types do; two types of
the same name are refused. A schema is valid outside Python: patterns, free-form objects and arrays are spelled out.
"""

import inspect
import re
import types
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Union, get_args, get_origin

import msgspec

from restante.commands.errors import CommandGone
from restante.core.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooLarge,
    TooManyRequests,
    Unavailable,
    Unprocessable,
    WrongMediaType,
)
from restante.events.errors import NotAcceptable
from restante.web.response import ApiResponse
from restante.web.routes import Header, JsonFormat, ResponseInfo, Route

Schema = dict[str, Any]

JSON = "application/json"
_REF = "#/components/schemas/{name}"
# Headers of every response, which need no description at each error.
_USUAL_HEADERS = (b"content-type", b"cache-control", b"pragma")
_HEADER_MEANINGS = {
    b"retry-after": "The number of seconds after which to try again.",
    b"www-authenticate": "How to authenticate.",
}
_WHOLE_NUMBERS = (b"retry-after",)
_INT32_MAX = 2**31 - 1
# Stands for `object` until `_portable`: msgspec takes an empty schema for a missing one.
_ANY_VALUE = {"$comment": "any JSON value"}
_GENERIC_NAME = re.compile(r"(\w+?)_(\w+)_")

_ERRORS: dict[int, RestanteError] = {
    error.status: error
    for error in (
        BadInput("name", "a value, it is required"),
        NotAuthenticated(),
        NotAllowed(),
        NotFound(),
        NotAcceptable(),
        Conflict(),
        CommandGone(),
        TooLarge(),
        WrongMediaType(),
        Unprocessable(),
        TooManyRequests(retry_after_seconds=5),
        Unavailable(retry_after_seconds=5),
    )
}


class BodySchemas:
    """The schemas of all request and response bodies of these routes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        routes = list(routes)
        self._formats = list(
            dict.fromkeys(response_format for route in routes if (response_format := json_format(route)) is not None)
        )
        body_types = [type_ for route in routes for type_ in (*_body_types(route), *_response_types(route))]
        all_types = list(
            dict.fromkeys([*(response_format.error_type for response_format in self._formats), *body_types])
        )
        schemas, components = msgspec.json.schema_components(all_types, schema_hook=_any_value, ref_template=_REF)
        names = {_REF.format(name=name): _REF.format(name=_stable_name(name)) for name in components}
        _require_names(components)
        self._by_type: dict[Any, Schema] = {
            type_: _renamed(_portable(each), names) for type_, each in zip(all_types, schemas, strict=True)
        }
        self.components: dict[str, Schema] = {
            _stable_name(name): {**_renamed(_portable(each), names), "title": _stable_name(name)}
            for name, each in sorted(components.items())
        }

    def request_body(self, route: Route) -> dict[str, Any] | None:
        """The OpenAPI request body of the route, if it takes one."""
        examples = _examples(route)
        if route.request_body is not None:
            schema = self._schema(_alternatives(route.request_body.type))
            content = {media_type: {"schema": schema, **examples} for media_type in route.request_body.media_types}
            return {"required": route.request_body.required, "content": content}
        if route.body_type is None:
            return None
        schema = self._schema([route.body_type])
        return {"required": not route.body_optional, "content": {JSON: {"schema": schema, **examples}}}

    def responses(self, route: Route) -> dict[str, dict[str, Any]]:
        """The OpenAPI responses of the route that are not errors, by status."""
        return {str(each.status): self._describe(route, each) for each in declared_responses(route)}

    def _describe(self, route: Route, declared: ResponseInfo) -> dict[str, Any]:
        described: dict[str, Any] = {"description": declared.meaning or HTTPStatus(declared.status).phrase}
        response_format = json_format(route)
        headers = (*(response_format.response_headers if response_format else ()), *declared.headers)
        if headers:
            described["headers"] = dict(map(describe_header, headers))
        alternatives = _alternatives(_type_of(route, declared))
        # The responses to these statuses never have a body.
        if declared.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED) or not alternatives:
            return described
        schema = self._schema(alternatives)
        if declared.media_type == JSON and response_format is not None and not declared.is_whole:
            schema = response_format.success_schema(schema)
        others = {media_type: {"schema": self._by_type[type_]} for media_type, type_ in declared.other_media_types}
        return {**described, "content": {declared.media_type: {"schema": schema}, **others}}

    def error_responses(self) -> dict[str, dict[str, Any]]:
        """The OpenAPI response objects of errors by name, which `error_reference` refers to."""
        return {
            _error_name(response_format, error): self._describe_error(response_format, error)
            for response_format in self._formats
            for error in _ERRORS.values()
        }

    def _describe_error(self, response_format: JsonFormat, error: RestanteError) -> dict[str, Any]:
        response = response_format.error(error)
        headers = dict(map(describe_header, response_format.response_headers)) | {
            _header_name(name): {
                "description": _HEADER_MEANINGS.get(name, ""),
                "schema": {"type": "integer", "minimum": 0} if name in _WHOLE_NUMBERS else {"type": "string"},
                "example": int(value) if name in _WHOLE_NUMBERS else value.decode(),
            }
            for name, value in response.headers
            if name not in _USUAL_HEADERS
        }
        described: dict[str, Any] = {"description": (type(error).__doc__ or "").splitlines()[0]}
        if headers:
            described["headers"] = headers
        if response.body:
            example = msgspec.json.decode(response.body)
            schema = self._by_type[response_format.error_type]
            described["content"] = {JSON: {"schema": schema, "example": example}}
        return described

    def _schema(self, alternatives: list[Any]) -> Schema:
        schemas = [self._by_type[type_] for type_ in alternatives]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def error_reference(route: Route, status: int) -> dict[str, Any]:
    """The OpenAPI response object of an error of the route."""
    response_format = json_format(route)
    if response_format is None:
        page = {"text/html": {"schema": {"type": "string"}}}
        return {"description": HTTPStatus(status).phrase, "content": page}
    if status in _ERRORS:
        return {"$ref": f"#/components/responses/{_error_name(response_format, _ERRORS[status])}"}
    return {"description": HTTPStatus(status).phrase}


def describe_header(header: Header) -> tuple[str, dict[str, Any]]:
    return header.name, {"description": header.meaning, "schema": header.schema, "required": header.required}


def json_format(route: Route) -> JsonFormat | None:
    return route.response_format if isinstance(route.response_format, JsonFormat) else None


def declared_responses(route: Route) -> list[ResponseInfo]:
    """The responses that are not errors. The success is the first one, declared or not."""
    if any(each.status == route.status for each in route.responses):
        return list(route.responses)
    return [ResponseInfo(route.status), *route.responses]


def _header_name(name: bytes) -> str:
    """`Retry-After`, as documents write it."""
    return "-".join(part.capitalize() if part != "www" else "WWW" for part in name.decode().split("-"))


def _error_name(response_format: JsonFormat, error: RestanteError) -> str:
    return f"{response_format.name}{type(error).__name__}"


def _examples(route: Route) -> dict[str, Any]:
    if len(route.examples) == 1:
        return {"example": route.examples[0]}
    if route.examples:
        return {"examples": {f"example{index}": {"value": each} for index, each in enumerate(route.examples, 1)}}
    return {}


def _body_types(route: Route) -> list[Any]:
    own = [] if route.body_type is None else [route.body_type]
    return [*own, *_alternatives(None if route.request_body is None else route.request_body.type)]


def _response_types(route: Route) -> list[Any]:
    declared = declared_responses(route)
    return [
        *(type_ for each in declared for type_ in _alternatives(_type_of(route, each))),
        *(type_ for each in declared for _, type_ in each.other_media_types),
    ]


def _type_of(route: Route, declared: ResponseInfo) -> Any:
    """The type of a response. Only the success may have the type that the handler returns."""
    if declared.type is not None or declared.status != route.status or json_format(route) is None:
        return declared.type
    return route.result_type


def _alternatives(type_: Any) -> list[Any]:
    """The types of a union, which msgspec describes only if it could decode them. ApiResponse gives none."""
    all_types = get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)
    return [each for each in all_types if each not in (ApiResponse, None, Any)]


def _any_value(type_: Any) -> Schema:
    if type_ is object:
        return _ANY_VALUE
    raise NotImplementedError


def _stable_name(name: str) -> str:
    """`Page_Device_`, the name of `Page[Device]`, becomes `DevicePage`."""
    generic = _GENERIC_NAME.fullmatch(name)
    return f"{_stable_name(generic[2])}{generic[1]}" if generic else name


def _require_names(components: Iterable[str]) -> None:
    """msgspec puts the module before the name if two types share it, so a module that moves would rename a schema."""
    for name in components:
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", _stable_name(name)):
            raise ValueError(f"two types of the API have the same name: {name}")


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, dict):
        return {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _portable(schema: Any) -> Any:
    """The schema with all that other languages need: plain descriptions and patterns, free-form parts spelled out."""
    if isinstance(schema, list):
        return [_portable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema == _ANY_VALUE:
        return {}
    return {**{key: _portable_value(key, value) for key, value in schema.items()}, **dict(_spelled_out(schema))}


def _spelled_out(schema: Schema) -> Iterator[tuple[str, Any]]:
    match schema.get("type"):
        case "object" if not schema.get("properties") and "additionalProperties" not in schema:
            yield "additionalProperties", True
        case "array" if "items" not in schema and "prefixItems" not in schema:
            yield "items", {}
        case "integer" if "format" not in schema and not _is_small(schema):
            yield "format", "int64"


def _is_small(schema: Schema) -> bool:
    """Whether a 32-bit integer is large enough."""
    least, most = schema.get("minimum"), schema.get("maximum")
    return isinstance(least, int) and isinstance(most, int) and least >= -_INT32_MAX and most <= _INT32_MAX


def _portable_value(key: str, value: Any) -> Any:
    if key == "additionalProperties" and value == _ANY_VALUE:
        return True
    if key == "description" and isinstance(value, str):
        return inspect.cleandoc(value)
    if key == "pattern" and isinstance(value, str):
        return value.replace(r"\A", "^").replace(r"\Z", "$")
    return _portable(value)
