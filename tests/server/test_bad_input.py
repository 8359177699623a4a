"""Whatever is wrong with a request's body, path or query: refused with 4xx in the protocol's shape, naming the field,
and nothing has changed. Never a 5xx."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.server.openapi import TEXT_IDS
from restante.updates.pages import PAGE
from restante.web.routes import Query, Route
from tests.examples import TIMES
from tests.server.good_bodies import BODIES
from tests.server.inhabited import Inhabited, fill_path
from tests.server.knocker import JSON, Knocker, check_refusal
from tests.server.route_table import every_route, route_name

NESTED = 100_000
FORM = {"content-type": "application/x-www-form-urlencoded"}

WITH_BODY = [route for route in every_route() if route.body_type is not None]
BODY_CASES = [(route, place) for route in WITH_BODY for place in range(len(BODIES[route.method, route.path]))]
WITH_QUERY = [route for route in every_route() if route.query and route.shape is not PAGE]
WITH_PATH = [route for route in every_route() if "{" in route.path]
FORMS = [route for route in every_route() if route.shape is PAGE and route.method == "POST"]

WRONG_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    2**70,
    "",
    "x",
    "a" * 300_000,
    [],
    [None],
    [[]],
    {},
    {"a": 1},
]


@pytest.fixture(scope="module")
def knocker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knocker]:
    inhabited = Inhabited(tmp_path_factory.mktemp("bad_input"))
    yield Knocker(inhabited)
    inhabited.close()


@pytest.fixture
def nothing_changes(knocker: Knocker, request: pytest.FixtureRequest) -> Iterator[None]:
    route = request.node.callspec.params["route"]
    before = knocker.things_there(route)
    yield
    assert knocker.things_there(route) == before


def body_struct(route: Route, body: dict[str, Any]) -> Any:
    """The struct that the body is decoded into: of several, the one that its tag names."""
    structs = get_args(route.body_type) or (route.body_type,)
    return next(each for each in structs if each.__struct_config__.tag in (None, body.get("action")))


def is_wrong(value: Any, type_: Any) -> bool:
    # Within an object and through JSON, where alone a field may be left out or be kept as it was sent.
    holder = msgspec.defstruct("Holder", [("value", type_)])
    try:
        msgspec.json.decode(json.dumps({"value": value}), type=holder)
    except msgspec.ValidationError:
        return True
    return False


def case_name(value: Any) -> str:
    return route_name(value) if isinstance(value, Route) else str(value)


NOT_JSON = {
    "an open brace": b"{",
    "a word": b"nope",
    "a comma too many": b'{"a":1,}',
    "two values": b"{}{}",
    "invalid UTF-8": b'{"a":"\xff"}',
    "an overlong encoding": b'{"a":"\xc0\x80"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "an encoded surrogate": b'{"a":"\xed\xa0\x80"}',
    "a raw control character": b'{"a":"\x01"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "not a number": b'{"a":NaN}',
    "infinite": b'{"a":1e400}',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a text": b'"x"',
    "deep lists": b"[" * NESTED,
    "deep closed lists": b"[" * NESTED + b"]" * NESTED,
    "deep objects": b'{"a":' * NESTED,
}


def passes_over_unknown_fields(route: Route) -> bool:
    """Then nobody looks at what is in them, either."""
    structs = get_args(route.body_type) or (route.body_type,)
    return not any(each.__struct_config__.forbid_unknown_fields for each in structs)


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_what_is_no_json_object(knocker: Knocker, route: Route) -> None:
    for name, content in NOT_JSON.items():
        if content.startswith(b'{"a":') and name != "deep objects" and passes_over_unknown_fields(route):
            continue
        answer = knocker.send(route, content)
        assert answer.status_code == 400, f"{name}: {answer.text[:300]}"
        check_refusal(answer, 400)
    if not route.body_optional:
        check_refusal(knocker.send(route, b""), 400)


@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_another_content_type(knocker: Knocker, route: Route) -> None:
    content = json.dumps(knocker.body(route)).encode()
    before = knocker.things_there(route)
    for media_type in ("text/plain", "application/jsonx", "multipart/form-data", "", "application/xml"):
        check_refusal(knocker.send(route, content, {"content-type": media_type}), 415)
    assert knocker.things_there(route) == before


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_too_large(knocker: Knocker, route: Route) -> None:
    most = knocker.inhabited.node.settings.body_bytes_max
    content = b'{"a":"' + b"a" * most + b'"}'
    check_refusal(knocker.send(route, content), 413)
    path, sent = fill_path(route, knocker.things), {**knocker.headers(route), **JSON}
    chunks = (content[start : start + 65536] for start in range(0, len(content), 65536))
    check_refusal(knocker.inhabited.client.request(route.method, path, headers=sent, content=chunks), 413)


def test_too_large_is_said_before_it_is_sent(knocker: Knocker) -> None:
    with knocker.inhabited.served.connect() as wire:
        answer = wire.ask(
            b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000000\r\n\r\n"
        )
    assert answer.status == 413


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_wrong_fields(knocker: Knocker, route: Route, place: int) -> None:
    knocker.renew(route)
    good = knocker.body(route, place)
    struct = body_struct(route, good)
    before = knocker.things_there(route)
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        for value in WRONG_VALUES:
            if is_wrong(value, field.type):
                content = json.dumps({**good, name: value}).encode()
                check_refusal(knocker.send(route, content), 400, name)
        if field.required:
            rest = {other: value for other, value in good.items() if other != name}
            check_refusal(knocker.send(route, json.dumps(rest).encode()), 400, name)
    if struct.__struct_config__.forbid_unknown_fields:
        check_refusal(knocker.send(route, json.dumps({**good, "colour": 1}).encode()), 400, "colour")
    assert knocker.things_there(route) == before


# What is good in no field at all, as it goes over the wire.
NEVER_GOOD = [
    b"1e400",
    b"-1e400",
    b"1" * 5000,
    b"-" + b"9" * 30,
    b"1e308",
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xff"',
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'["\\u0000"]',
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
]
# What may be good in some, and breaks nothing in any.
SELDOM_GOOD = [
    b'"\\u202e\\u200b"',
    b'"\\r\\nX: y"',
    b'"\\n"',
    b'"\\uffff"',
    b'"\\ud83d\\ude00"',
    b"1e2",
    b"-0",
    b"-0.0",
]
# Fields that are kept as JSON, in which a NUL is an escape like any other; and numbers that may be of any size.
FREE_FORM = {
    ("POST", "/apiv1/users/{user_id}/devices/{device_id}/signals", "ref"),
    ("POST", "/apiv1/devices/self/notify", "events"),
    ("POST", "/auth/device", "scopes"),
    ("POST", "/api/edge/v1/admin/rules", "trigger_value"),
    ("PUT", "/api/edge/v1/admin/rules/{rule_id}", "trigger_value"),
    ("PATCH", "/api/edge/v1/admin/rules/{rule_id}", "trigger_value"),
}


def with_raw_field(body: dict[str, Any], name: str, value: bytes) -> bytes:
    rest = json.dumps({other: value for other, value in body.items() if other != name}).encode()[:-1]
    return rest + (b"" if rest == b"{" else b",") + b'"%b":%b}' % (name.encode(), value)


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_values_that_are_never_good(knocker: Knocker, route: Route, place: int) -> None:
    knocker.renew(route)
    good = knocker.body(route, place)
    before = knocker.things_there(route)
    for name in good:
        if (route.method, route.path, name) in FREE_FORM:
            continue
        for value in NEVER_GOOD:
            answer = knocker.send(route, with_raw_field(good, name, value))
            assert 400 <= answer.status_code < 500, f"{name} {value[:40]!r}: {answer.text[:300]}"
            check_refusal(answer, answer.status_code)
    assert knocker.things_there(route) == before


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_values_that_are_seldom_good(knocker: Knocker, route: Route, place: int) -> None:
    knocker.renew(route)
    good = knocker.body(route, place)
    for name in good:
        for value in [*SELDOM_GOOD, *NEVER_GOOD]:
            answer = knocker.send(route, with_raw_field(good, name, value))
            assert answer.status_code < 500, f"{name} {value[:40]!r}: {answer.text[:300]}"


DEPTHS = [10, 100, 300, 480, 500, 900, *range(960, 1004, 2), 1100, 5000]


@pytest.mark.parametrize(
    ("path", "before", "behind"),
    [
        ("/apiv1/users/{user_id}/devices/{device_id}/signals", b'{"type":"a","ref":{"a":', b"}}"),
        ("/apiv1/devices/self/notify", b'{"schema":"certctrl.device.notify.v1","events":[', b"]}"),
        (
            "/apiv1/users/{user_id}/devices/{device_id}/install-config",
            b'{"installs":[{"id":"a","type":"exec","verify":{"a":',
            b"}}]}",
        ),
    ],
)
@pytest.mark.parametrize("nesting", [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_free_form_values_may_be_nested_as_deep_as_anybody_likes(
    knocker: Knocker, path: str, before: bytes, behind: bytes, nesting: tuple[bytes, bytes]
) -> None:
    route = next(route for route in WITH_BODY if route.path == path)
    for depth in DEPTHS:
        inner = nesting[0] * depth + b"1" + nesting[1] * depth
        answer = knocker.send(route, before + inner + behind)
        assert answer.status_code < 500, f"{depth}: {answer.text}"
        if answer.status_code >= 400:
            check_refusal(answer, 400)
    # Whatever was accepted can be handed on, too.
    outcome = knocker.inhabited.served.wait_for(knocker.inhabited.node.dispatcher.run_once())
    assert outcome.failed == outcome.retried == 0
    updates = next(route for route in every_route() if route.path.endswith("/self/updates"))
    assert knocker.ask(updates, updates.path).status_code == 200
    for seen in every_route():
        if seen.method == "GET" and seen.path.startswith("/apiv1/users") and "install-config" in seen.path:
            assert knocker.ask(seen, fill_path(seen, knocker.things)).status_code < 500


NO_NUMBERS = ["abc", "-1", "+1", "1.5", "0x1", "1e3", "%201", "1%20", "1%0A", "%00", "1%00", "%D9%A3", "%FF", "1,2"]
NO_IDS = ["0", "9223372036854775807", "9223372036854775808", str(2**70), "9" * 5000]


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_PATH, ids=route_name)
def test_ids_in_paths(knocker: Knocker, route: Route) -> None:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    for name in names:
        for text in [*NO_NUMBERS, *NO_IDS]:
            written = replace(route, path=route.path.replace(f"{{{name}}}", text))
            path = fill_path(written, knocker.things)
            answer = knocker.ask(route, path)
            # Where an id is a text, any that is not one of ours is nowhere.
            if text in NO_NUMBERS and name not in TEXT_IDS:
                check_refusal(answer, 400, name)
            else:
                check_refusal(answer, 404)


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_QUERY, ids=route_name)
def test_query_parameters(knocker: Knocker, route: Route) -> None:
    # Without the site, which it cannot do without, this one would complain of nothing else.
    needed = f"site_id={knocker.things.edge.site_id}&" if route.path.endswith("/admin/telemetry") else ""
    path = fill_path(route, knocker.things)
    for query in route.query:
        before = needed if query.name != "site_id" else ""
        for text in wrong_texts(query):
            check_refusal(knocker.ask(route, f"{path}?{before}{query.name}={text}"), 400, query.name)
        for text in ["", "abc", "%00", "%FF", "%ED%A0%80"] if is_free_text(query) else []:
            assert knocker.ask(route, f"{path}?{before}{query.name}={text}").status_code < 500


def is_free_text(query: Query) -> bool:
    """Whether anything could be a value of it."""
    return query.schema["type"] == "string" and not {"enum", "format"} & set(query.schema)


def wrong_texts(query: Query) -> list[str]:
    twice = [f"a&{query.name}=b"]
    if is_free_text(query) and query.name != "cursor":
        return twice
    wrong = ["", "abc", "%00", "%FF", "%ED%A0%80", *twice]
    if query.schema["type"] == "integer":
        wrong += [*NO_NUMBERS, str(2**70), str(2**63), "9" * 5000, f"1&{query.name}=1"]
    return wrong


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", FORMS, ids=route_name)
def test_forms_of_pages(knocker: Knocker, route: Route) -> None:
    for content in [b"", b"\xff", b"%ff=%ff", b"a=%00", b"&" * 1000, b"user_code=%ED%A0%80", b"decision=approve"]:
        answer = knocker.send(route, content, FORM)
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"].startswith("text/html")
    assert knocker.send(route, b"{}", JSON).status_code in (403, 415)
    assert knocker.send(route, b"a" * 20_000, FORM).status_code in (403, 413)


@pytest.mark.parametrize("code", ["%00", "%FF", "%ED%A0%80", "a" * 3000, "%3Cscript%3E", "1&user_code=2"])
def test_odd_codes_on_the_page(knocker: Knocker, code: str) -> None:
    route = next(route for route in every_route() if route_name(route) == "GET /device")
    answer = knocker.ask(route, f"/device?user_code={code}")
    assert answer.status_code < 500
    assert "<script>" not in answer.text


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_random_bodies(knocker: Knocker, route: Route, place: int) -> None:
    knocker.renew(route)
    good = knocker.body(route, place)
    names = st.sampled_from(sorted(good)) if good else st.nothing()
    changed = st.dictionaries(names, JSON_VALUES, min_size=1, max_size=3).map(lambda some: {**good, **some})

    @settings(max_examples=25 * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changed | JSON_VALUES)
    def knock(body: Any) -> None:
        answer = knocker.send(route, json.dumps(body).encode())
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            check_refusal(answer, answer.status_code)

    knock()
