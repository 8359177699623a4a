from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from starlette.requests import Request

from restante.core.errors import BadInput, NotFound, TooLarge, WrongMediaType
from restante.identity.callers import Caller, DeviceCaller, KeyHolder, Person, Role
from restante.web.ask import Ask, convert, decode_json, parse_int, read_body, require_json


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


def ask(query: bytes = b"", path: dict[str, str] | None = None, caller: Caller | None = None) -> Ask:
    return Ask(request(query, path), caller)


@pytest.mark.parametrize(
    ("caller", "actor"),
    [
        (Person(1, "ada@example.com", Role.admin), "ada@example.com"),
        (KeyHolder(1, "nightly", Role.viewer), "key:nightly"),
        (DeviceCaller(7, 1, 0.0), "device:7"),
        (None, "anonymous"),
    ],
)
def test_an_actor_is_named(caller: Caller | None, actor: str) -> None:
    assert ask(caller=caller).actor == actor


def test_the_caller_is_whom_the_route_admits() -> None:
    device, person = DeviceCaller(7, 1, 0.0), Person(1, "ada@example.com", Role.admin)
    assert ask(caller=device).device is device
    assert ask(caller=person).person is person
    with pytest.raises(AssertionError):
        _ = ask(caller=person).device
    with pytest.raises(AssertionError):
        _ = ask(caller=device).person


def test_an_id_in_the_path_is_a_whole_number() -> None:
    assert ask(path={"id": "42"}).path_id("id") == 42
    assert ask(path={"id": str(2**63 - 1)}).path_id("id") == 2**63 - 1
    for text in ("", "x", "-1", "+1", "1.0", " 1", "1_0", "٣"):
        with pytest.raises(BadInput) as refused:
            ask(path={"id": text}).path_id("id")
        assert refused.value.field == "id"


@pytest.mark.parametrize("text", [str(2**63), "9" * 19, "9" * 20, "9" * 5000])
def test_an_id_no_row_can_have_is_absent(text: str) -> None:
    with pytest.raises(NotFound):
        ask(path={"id": text}).path_id("id")


def test_a_path_may_hold_text() -> None:
    assert ask(path={"name": "a b"}).path_text("name") == "a b"


def test_a_query_value_is_given_at_most_once() -> None:
    assert ask(b"a=1&b=2").query_text("a") == "1"
    assert ask(b"a=%C3%BC+x").query_text("a") == "ü x"
    assert ask(b"").query_text("a") is None
    assert ask(b"a=").query_text("a") == ""
    with pytest.raises(BadInput) as refused:
        ask(b"a=1&a=1").query_text("a")
    assert refused.value.field == "a"


def test_a_number_in_the_query_is_within_its_bounds_and_never_clamped() -> None:
    for query, value in ((b"", 20), (b"limit=1", 1), (b"limit=100", 100)):
        assert ask(query).query_int("limit", 20, 1, 100) == value
    for text in (b"0", b"101", b"-1", b"", b"x", b"1.5", b"1e2", b"%D9%A3", b" 5", b"+5", b"9" * 30):
        with pytest.raises(BadInput) as refused:
            ask(b"limit=" + text).query_int("limit", 20, 1, 100)
        assert refused.value.field == "limit"
        assert "from 1 to 100" in refused.value.message


@given(st.text())
def test_no_text_does_worse_than_bad_input(text: str) -> None:
    with suppress(BadInput):
        assert parse_int("a", text, 0, 10**30) >= 0


async def test_a_body_in_pieces_is_read_whole() -> None:
    assert await read_body(request(chunks=(b"ab", b"", b"cd"))) == b"abcd"
    assert await read_body(request()) == b""


async def test_a_body_as_large_as_allowed_is_read() -> None:
    assert await read_body(request(chunks=(b"x" * 10,), content_length="10"), 10) == b"x" * 10


@pytest.mark.parametrize("declared", ["11", "99999999999999999999", "9" * 5000])
async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read(declared: str) -> None:
    unread = request(chunks=(b"x",), content_length=declared)
    with pytest.raises(TooLarge):
        await read_body(unread, 10)
    assert await anext(aiter(unread.stream())) == b"x"


@pytest.mark.parametrize("declared", [None, "5", "nonsense", "-1", "²"])
async def test_a_body_that_does_not_say_so_is_refused_as_soon_as_it_is(declared: str | None) -> None:
    pieces = (b"x" * 6, b"x" * 5, b"never read")
    endless = request(chunks=pieces) if declared is None else request(chunks=pieces, content_length=declared)
    with pytest.raises(TooLarge):
        await read_body(endless, 10)
    assert await anext(aiter(_rest(endless))) == b"never read"


async def _rest(request: Request) -> AsyncIterator[bytes]:
    yield (await request.receive())["body"]


@pytest.mark.parametrize("sent", ["application/json", "Application/JSON; charset=utf-8", " application/json "])
def test_json_is_json_however_it_is_spelt(sent: str) -> None:
    require_json(request(content_type=sent))


@pytest.mark.parametrize("sent", ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded"])
def test_anything_else_is_the_wrong_media_type(sent: str) -> None:
    with pytest.raises(WrongMediaType):
        require_json(request(content_type=sent))
    with pytest.raises(WrongMediaType):
        require_json(request())


class Item(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=9)]
    tags: list[str] = []
    counts: dict[str, int] = {}


class Wish(msgspec.Struct, forbid_unknown_fields=True):
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
def test_every_deviation_names_its_field(body: bytes, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        decode_json(body, Wish)
    assert refused.value.field == field
    assert refused.value.message.startswith(f"{field}: expected ")


def test_a_key_of_the_wrong_kind_names_where_it_is() -> None:
    class Counts(msgspec.Struct):
        by_id: dict[int, int]

    with pytest.raises(BadInput) as refused:
        decode_json(b'{"by_id":{"x":1}}', Counts)
    assert refused.value.field == "by_id"


def test_what_is_right_is_decoded() -> None:
    assert decode_json(b'{"name":"a","items":[{"size":3}]}', Wish) == Wish("a", [Item(3)])


@given(st.binary())
def test_no_bytes_do_worse_than_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        decode_json(body, Wish)


def test_a_value_already_decoded_is_converted_or_named() -> None:
    assert convert({"size": 3}, Item, "item") == Item(3)
    for value, field in (({}, "item.size"), ({"size": 0}, "item.size"), ([], "item"), ({"size": 1, "y": 1}, "item.y")):
        with pytest.raises(BadInput) as refused:
            convert(value, Item, "item")
        assert refused.value.field == field
    with pytest.raises(BadInput) as refused:
        convert([1, "x"], list[int], "ids")
    assert refused.value.field == "ids[1]"


def test_a_value_that_is_none_of_the_known_ones_is_said_plainly() -> None:
    class Paint(msgspec.Struct):
        colour: Literal["blue"]

    with pytest.raises(BadInput, match="colour: expected one of the values it can have, not 'red'"):
        decode_json(b'{"colour":"red"}', Paint)
