"""The common part of all methods of the operator API: one call, pages, streams, and groups of methods by noun.

The methods themselves are generated (`*_api.py`). They return the JSON of the server, typed as `TypedDict`. Fields that
a newer server adds are there too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from restante_client.calls import Caller, decode
from restante_client.clients import closing_generator

G = TypeVar("G", bound="Noun")

PAGE_SIZE = 500


class Api:
    """Calls the operator routes of one server with one credential."""

    def __init__(self, caller: Caller, token: str | None) -> None:
        self._caller = caller
        self._token = token

    def __repr__(self) -> str:
        return "Api()"

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        is_wrapped: bool = False,
    ) -> Any:
        """The decoded response; None if it has no body. `is_wrapped`: the value is in `data`."""
        response = await self._caller.call(
            method,
            path,
            token=self._token,
            query=as_query(query),
            headers=None if idempotency_key is None else {"Idempotency-Key": idempotency_key},
            json=body,
        )
        if not response.body:
            return None
        value = decode(response, object)
        return value["data"] if is_wrapped and isinstance(value, dict) and "data" in value else value

    async def pages(
        self, path: str, query: Mapping[str, Any], *, is_wrapped: bool = False
    ) -> AsyncGenerator[Any, None]:
        """The items of all pages, one after another."""
        after: Any = None
        while True:
            page_query = {"limit": PAGE_SIZE, **query, "after": after}
            page = await self.call("GET", path, query=page_query, is_wrapped=is_wrapped)
            for item in page["items"]:
                yield item
            after = page.get("next")
            if after is None:
                return

    async def stream(self, path: str, query: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """The parts of a response, as they arrive."""
        async with closing_generator(self._caller.stream(path, token=self._token, query=as_query(query))) as parts:
            async for part in parts:
                yield part


class Noun:
    """The methods of one noun."""

    def __init__(self, api: Api) -> None:
        self.call = api.call
        self.pages = api.pages
        self.stream = api.stream

    @staticmethod
    def quoted(value: object) -> str:
        """A value in a path."""
        return quote(str(value), safe="")


class BlockingNoun(Generic[G]):
    """The same methods for programs without asyncio."""

    def __init__(self, group: G) -> None:
        self.client = group


def as_query(query: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The parameters that have a value."""
    if query is None:
        return None
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }


def as_body(**fields: Any) -> dict[str, Any]:
    """The fields that have a value; None is one."""
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
