from typing import Any

import msgspec

from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup


class Body(msgspec.Struct):
    name: str


async def plain(request: ApiRequest) -> list[int]:
    return []


async def with_body(request: ApiRequest, body: Body) -> Body:
    return body


class Grouped:
    async def handler(self, request: ApiRequest, body: Body) -> None:
        return None


def route(handler: Any) -> Route:
    return Route("POST", "/x", handler, Access.open, "x", response_format=RESPONSE_FORMAT, tag="x")


def test_body_and_result_types_come_from_signature() -> None:
    assert (route(plain).body_type, route(plain).result_type) == (None, list[int])
    assert (route(with_body).body_type, route(with_body).result_type) == (Body, Body)
    assert route(Grouped().handler).body_type is Body


def test_every_access_has_its_own_description() -> None:
    assert len({access.value for access in Access}) == len(Access)


def test_group_adds_tag_format_prefix_and_common_errors() -> None:
    group = RouteGroup("things", RESPONSE_FORMAT, prefix="/things", errors=(404,))
    made = group.post("/{id}", plain, Access.operate, "Change a thing", status=202, errors=(409,))
    assert made == Route(
        "POST", "/things/{id}", plain, Access.operate, "Change a thing", RESPONSE_FORMAT, "things", 202, (), (404, 409)
    )
    methods = (group.get, group.post, group.put, group.patch, group.delete)
    assert [method("", plain, Access.open, "x").method for method in methods] == [
        "GET",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
    ]
