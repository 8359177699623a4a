from typing import Any

import msgspec

from restante.updates.wire import SHAPE
from restante.web.ask import Ask
from restante.web.routes import Access, Route


class Wish(msgspec.Struct):
    name: str


async def plain(ask: Ask) -> list[int]:
    return []


async def with_body(ask: Ask, body: Wish) -> Wish:
    return body


class Grouped:
    async def handler(self, ask: Ask, body: Wish) -> None:
        return None


def route(handler: Any) -> Route:
    return Route("POST", "/x", handler, Access.open, "x", shape=SHAPE, tag="x")


def test_body_and_result_are_read_off_the_handlers_signature() -> None:
    assert (route(plain).body_type, route(plain).result_type) == (None, list[int])
    assert (route(with_body).body_type, route(with_body).result_type) == (Wish, Wish)
    assert route(Grouped().handler).body_type is Wish


def test_every_access_says_who_may() -> None:
    assert len({access.value for access in Access}) == len(Access)
