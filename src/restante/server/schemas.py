"""What goes over the wire, as JSON Schema: bodies, successes and refusals, each protocol's in its own shape.

Knows types and errors, nothing of paths or access. The schemas of all types are made in one go, so that two
types of the same name get different ones. Examples of refusals are written by the shape itself: they cannot
differ from what is sent. A route whose shape is not described, a page, has statuses and no schemas.
"""

import inspect
import types
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Union, get_args, get_origin

import msgspec

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
from restante.web.answer import Answer
from restante.web.routes import DescribedShape, Route

Schema = dict[str, Any]

_REF = "#/components/schemas/{name}"
# Headers that every answer has: nothing to say about them at each refusal.
_USUAL_HEADERS = (b"content-type", b"cache-control")


_REFUSALS: dict[int, RestanteError] = {
    error.status: error
    for error in (
        BadInput("name", "a value, it is required"),
        NotAuthenticated(),
        NotAllowed(),
        NotFound(),
        Conflict(),
        TooLarge(),
        WrongMediaType(),
        Unprocessable(),
        TooManyRequests(retry_after_seconds=5),
        Unavailable(retry_after_seconds=5),
    )
}


class WireSchemas:
    """The schemas of everything that these routes take and give."""

    def __init__(self, routes: Iterable[Route]) -> None:
        routes = list(routes)
        self._shapes = list(dict.fromkeys(shape for route in routes if (shape := _described(route)) is not None))
        shown = [kind for route in routes for kind in (*_body_types(route), *_data_types(route))]
        kinds = list(dict.fromkeys([*(shape.error_type for shape in self._shapes), *shown]))
        schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
        self._by_type: dict[Any, Schema] = dict(zip(kinds, map(_portable, schemas), strict=True))
        self.components: dict[str, Schema] = {name: _portable(each) for name, each in sorted(components.items())}

    def body(self, route: Route) -> Schema | None:
        return next((self._by_type[kind] for kind in _body_types(route)), None)

    def success(self, route: Route) -> dict[str, Any]:
        """The success as a response object; no word of a body where the handler writes its own."""
        description = {"description": HTTPStatus(route.status).phrase}
        alternatives = [self._by_type[kind] for kind in _data_types(route)]
        shape = _described(route)
        if shape is None or not alternatives or route.status == HTTPStatus.NO_CONTENT:
            return description
        data = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
        return {**description, "content": {"application/json": {"schema": shape.envelope(data)}}}

    def refusals(self) -> dict[str, dict[str, Any]]:
        """The refusals as named response objects, for `refusal` to point to."""
        return {
            _refusal_name(shape, error): self._refusal_in_full(shape, error)
            for shape in self._shapes
            for error in _REFUSALS.values()
        }

    def _refusal_in_full(self, shape: DescribedShape, error: RestanteError) -> dict[str, Any]:
        answer = shape.error(error)
        headers = {
            name.decode(): {"schema": {"type": "string"}, "example": value.decode()}
            for name, value in answer.headers
            if name not in _USUAL_HEADERS
        }
        described: dict[str, Any] = {"description": (type(error).__doc__ or "").splitlines()[0]}
        if headers:
            described["headers"] = headers
        if answer.body:
            example = msgspec.json.decode(answer.body)
            schema = self._by_type[shape.error_type]
            described["content"] = {"application/json": {"schema": schema, "example": example}}
        return described


def refusal(route: Route, status: int) -> dict[str, Any]:
    """The response object of a status that is not the route's success."""
    shape = _described(route)
    if status in _REFUSALS and shape is not None:
        return {"$ref": f"#/components/responses/{_refusal_name(shape, _REFUSALS[status])}"}
    return {"description": HTTPStatus(status).phrase}


def _described(route: Route) -> DescribedShape | None:
    return route.shape if isinstance(route.shape, DescribedShape) else None


def _refusal_name(shape: DescribedShape, error: RestanteError) -> str:
    return f"{shape.name}{type(error).__name__}"


def _body_types(route: Route) -> list[Any]:
    return [] if route.body_type is None else [route.body_type]


def _data_types(route: Route) -> list[Any]:
    """What a success may be. An Answer, a missing hint and a page say nothing about that."""
    if _described(route) is None:
        return []
    result = route.result_type
    # A union is taken apart because msgspec describes only those that it could also read back.
    kinds = get_args(result) if get_origin(result) in (Union, types.UnionType) else (result,)
    return [kind for kind in kinds if kind not in (Answer, None, Any)]


def _portable(schema: Any) -> Any:
    """The schema with docstrings as plain text, and patterns that are understood outside Python."""
    if isinstance(schema, dict):
        return {key: _portable_value(key, value) for key, value in schema.items()}
    return [_portable(each) for each in schema] if isinstance(schema, list) else schema


def _portable_value(key: str, value: Any) -> Any:
    if key == "description" and isinstance(value, str):
        return inspect.cleandoc(value)
    if key == "pattern" and isinstance(value, str):
        return value.replace(r"\A", "^").replace(r"\Z", "$")
    return _portable(value)
