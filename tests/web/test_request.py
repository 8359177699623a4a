from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from starlette.requests import Request

from restante.core.decoding import convert, decode_json, parse_int
from restante.core.errors import BadInput, NotFound, TooLarge, WrongMediaType
from restante.identity.callers import ApiKeyCaller, Caller, DeviceCaller, Person, Role
from restante.identity.grants import Grants
from restante.web.request import ApiRequest, read_body, require_json


def request(
    query: bytes = b"", path: dict[str, str] | None = None, chunks: tuple[bytes, ...] = (), **headers: str
) -> Request:
    sent: list[dict[str, Any]] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    sent.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return sent.pop(0)

    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "query_string": query, "headers": named, "path_params": path or {}}
    return Request(scope, receive)


def api_request(query: bytes = b"", path: dict[str, str] | None = None, caller: Caller | None = None) -> ApiRequest:
    return ApiRequest(request(query, path), caller)


@pytest.mark.parametrize(
    ("caller", "actor"),
    [
        (Person(1, "ada@example.com", Grants.everywhere(Role.admin)), "ada@example.com"),
        (ApiKeyCaller(1, "nightly", Grants.everywhere(Role.viewer)), "key:nightly"),
        (DeviceCaller(7, 1, 0.0), "device:7"),
        (None, "anonymous"),
    ],
)
def test_actor_names_caller(caller: Caller | None, actor: str) -> None:
    assert api_request(caller=caller).actor == actor


def test_caller_property_checks_kind_of_caller() -> None:
    device, person = DeviceCaller(7, 1, 0.0), Person(1, "ada@example.com", Grants.everywhere(Role.admin))
    assert api_request(caller=device).device is device
    assert api_request(caller=person).person is person
    with pytest.raises(AssertionError):
        _ = api_request(caller=person).device
    with pytest.raises(AssertionError):
        _ = api_request(caller=device).person


def test_path_id_must_be_whole_number() -> None:
    assert api_request(path={"id": "42"}).path_id("id") == 42
    assert api_request(path={"id": str(2**63 - 1)}).path_id("id") == 2**63 - 1
    for text in ("", "x", "-1", "+1", "1.0", " 1", "1_0", "٣"):
        with pytest.raises(BadInput) as caught:
            api_request(path={"id": text}).path_id("id")
        assert caught.value.field == "id"


@pytest.mark.parametrize("text", [str(2**63), "9" * 19, "9" * 20, "9" * 5000])
def test_path_id_beyond_int64_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        api_request(path={"id": text}).path_id("id")


def test_path_text_is_returned() -> None:
    assert api_request(path={"name": "a b"}).path_text("name") == "a b"


def test_repeated_query_value_is_refused() -> None:
    assert api_request(b"a=1&b=2").query_text("a") == "1"
    assert api_request(b"a=%C3%BC+x").query_text("a") == "ü x"
    assert api_request(b"").query_text("a") is None
    assert api_request(b"a=").query_text("a") == ""
    with pytest.raises(BadInput) as caught:
        api_request(b"a=1&a=1").query_text("a")
    assert caught.value.field == "a"


def test_query_int_out_of_range_is_refused() -> None:
    for query, value in ((b"", 20), (b"limit=1", 1), (b"limit=100", 100)):
        assert api_request(query).query_int("limit", 20, 1, 100) == value
    for text in (b"0", b"101", b"-1", b"", b"x", b"1.5", b"1e2", b"%D9%A3", b" 5", b"+5", b"9" * 30):
        with pytest.raises(BadInput) as caught:
            api_request(b"limit=" + text).query_int("limit", 20, 1, 100)
        assert caught.value.field == "limit"
        assert "from 1 to 100" in caught.value.message


@given(st.text())
def test_parse_int_of_any_text_raises_only_bad_input(text: str) -> None:
    with suppress(BadInput):
        assert parse_int("a", text, 0, 10**30) >= 0


async def test_body_in_chunks_is_joined() -> None:
    assert await read_body(request(chunks=(b"ab", b"", b"cd")), 100) == b"abcd"
    assert await read_body(request(), 100) == b""


async def test_body_of_maximum_size_is_read() -> None:
    assert await read_body(request(chunks=(b"x" * 10,), content_length="10"), 10) == b"x" * 10


@pytest.mark.parametrize("declared", ["11", "99999999999999999999", "9" * 5000])
async def test_too_large_content_length_is_refused_before_reading(declared: str) -> None:
    unread = request(chunks=(b"x",), content_length=declared)
    with pytest.raises(TooLarge):
        await read_body(unread, 10)
    assert await anext(aiter(unread.stream())) == b"x"


@pytest.mark.parametrize("declared", [None, "5", "nonsense", "-1", "²"])
async def test_too_large_body_is_refused_while_reading(declared: str | None) -> None:
    pieces = (b"x" * 6, b"x" * 5, b"never read")
    endless = request(chunks=pieces) if declared is None else request(chunks=pieces, content_length=declared)
    with pytest.raises(TooLarge):
        await read_body(endless, 10)
    assert await anext(aiter(_rest(endless))) == b"never read"


async def _rest(request: Request) -> AsyncIterator[bytes]:
    yield (await request.receive())["body"]


@pytest.mark.parametrize("sent", ["application/json", "Application/JSON; charset=utf-8", " application/json "])
def test_json_media_type_is_accepted_in_any_spelling(sent: str) -> None:
    require_json(request(content_type=sent))


@pytest.mark.parametrize("sent", ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded"])
def test_other_media_types_are_refused(sent: str) -> None:
    with pytest.raises(WrongMediaType):
        require_json(request(content_type=sent))
    with pytest.raises(WrongMediaType):
        require_json(request())


class Item(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=9)]
    tags: list[str] = []
    counts: dict[str, int] = {}


class Body(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=5)]
    items: list[Item] = []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "name"),
        (b'{"name":5}', "name"),
        (b'{"name":""}', "name"),
        (b'{"name":"toolong"}', "name"),
        (b'{"name":"a","other":1}', "other"),
        (b'{"name":"a","items":{}}', "items"),
        (b'{"name":"a","items":[{"size":1},{"size":10}]}', "items[1].size"),
        (b'{"name":"a","items":[{}]}', "items[0].size"),
        (b'{"name":"a","items":[{"size":1,"x":2}]}', "items[0].x"),
        (b'{"name":"a","items":[{"size":1,"tags":[1]}]}', "items[0].tags[0]"),
        (b'{"name":"a","items":[{"size":1,"counts":{"a":"b"}}]}', "items[0].counts[...]"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"", "body"),
        (b"{", "body"),
        (b'{"name":"a"} x', "body"),
        (b'{"name":"\xff"}', "body"),
        (b"[" * 100_000, "body"),
        (b'{"name":"\\ud800a"}', "body"),
        (b"\xef\xbb\xbf{}", "body"),
    ],
)
def test_decoding_error_names_field(body: bytes, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        decode_json(body, Body)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: expected ")


def test_wrong_key_type_names_field() -> None:
    class Counts(msgspec.Struct):
        by_id: dict[int, int]

    with pytest.raises(BadInput) as caught:
        decode_json(b'{"by_id":{"x":1}}', Counts)
    assert caught.value.field == "by_id"


def test_valid_body_is_decoded() -> None:
    assert decode_json(b'{"name":"a","items":[{"size":3}]}', Body) == Body("a", [Item(3)])


@given(st.binary())
def test_decode_json_of_any_bytes_raises_only_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        decode_json(body, Body)


def test_convert_names_invalid_field() -> None:
    assert convert({"size": 3}, Item, "item") == Item(3)
    for value, field in (({}, "item.size"), ({"size": 0}, "item.size"), ([], "item"), ({"size": 1, "y": 1}, "item.y")):
        with pytest.raises(BadInput) as caught:
            convert(value, Item, "item")
        assert caught.value.field == field
    with pytest.raises(BadInput) as caught:
        convert([1, "x"], list[int], "ids")
    assert caught.value.field == "ids[1]"


def test_unknown_literal_value_is_named() -> None:
    class Paint(msgspec.Struct):
        colour: Literal["blue"]

    with pytest.raises(BadInput, match="colour: expected one of the values it can have, not 'red'"):
        decode_json(b'{"colour":"red"}', Paint)
