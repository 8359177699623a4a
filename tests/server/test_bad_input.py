"""Invalid bodies, paths and queries: refused with 4xx in the format of the protocol, naming the field, without any
change. Never a 5xx."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.server.docs.openapi import TEXT_IDS
from restante.updates.devices.pages import PAGE
from restante.web.routes import Query, Route
from tests.examples import EXAMPLES_FACTOR
from tests.server.populated_server import PopulatedServer, fill_path
from tests.server.route_caller import JSON, RouteCaller, check_error
from tests.server.route_table import case_name, every_route, route_name
from tests.server.valid_bodies import BODIES

NESTED = 100_000
FORM = {"content-type": "application/x-www-form-urlencoded"}

WITH_BODY = [route for route in every_route() if route.body_type is not None]
BODY_CASES = [(route, place) for route in WITH_BODY for place in range(len(BODIES[route.method, route.path]))]
WITH_QUERY = [route for route in every_route() if route.query and route.response_format is not PAGE]
WITH_PATH = [route for route in every_route() if "{" in route.path]
FORMS = [route for route in every_route() if route.response_format is PAGE and route.method == "POST"]

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
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouteCaller]:
    server = PopulatedServer(tmp_path_factory.mktemp("bad_input"))
    yield RouteCaller(server)
    server.close()


@pytest.fixture
def nothing_changes(caller: RouteCaller, request: pytest.FixtureRequest) -> Iterator[None]:
    route = request.node.callspec.params["route"]
    before = caller.database_content(route)
    yield
    assert caller.database_content(route) == before


def body_struct(route: Route, body: dict[str, Any]) -> Any:
    """The struct that the body is decoded into; of a union, the one that its tag selects."""
    structs = get_args(route.body_type) or (route.body_type,)
    return next(each for each in structs if each.__struct_config__.tag in (None, body.get("action")))


def is_wrong(value: Any, type_: Any) -> bool:
    # Inside an object and through JSON, because only there a field may be omitted or kept raw.
    holder = msgspec.defstruct("Holder", [("value", type_)])
    try:
        msgspec.json.decode(json.dumps({"value": value}), type=holder)
    except msgspec.ValidationError:
        return True
    return False


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


def ignores_unknown_fields(route: Route) -> bool:
    """Whether unknown fields are ignored; then their values are not checked, either."""
    structs = get_args(route.body_type) or (route.body_type,)
    return not any(each.__struct_config__.forbid_unknown_fields for each in structs)


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_body_that_is_no_json_object_is_refused(caller: RouteCaller, route: Route) -> None:
    for name, content in NOT_JSON.items():
        if content.startswith(b'{"a":') and name != "deep objects" and ignores_unknown_fields(route):
            continue
        response = caller.send(route, content)
        assert response.status_code == 400, f"{name}: {response.text[:300]}"
        check_error(response, 400)
    if not route.body_optional:
        check_error(caller.send(route, b""), 400)


@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_other_content_type_is_refused(caller: RouteCaller, route: Route) -> None:
    content = json.dumps(caller.body(route)).encode()
    before = caller.database_content(route)
    for media_type in ("text/plain", "application/jsonx", "multipart/form-data", "", "application/xml"):
        check_error(caller.send(route, content, {"content-type": media_type}), 415)
    assert caller.database_content(route) == before


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_BODY, ids=route_name)
def test_too_large_body_is_refused(caller: RouteCaller, route: Route) -> None:
    most = caller.server.node.settings.body_bytes_max
    content = b'{"a":"' + b"a" * most + b'"}'
    check_error(caller.send(route, content), 413)
    path, sent = fill_path(route, caller.resources), {**caller.headers(route), **JSON}
    chunks = (content[start : start + 65536] for start in range(0, len(content), 65536))
    check_error(caller.server.client.request(route.method, path, headers=sent, content=chunks), 413)


def test_too_large_content_length_is_refused_before_body(caller: RouteCaller) -> None:
    with caller.server.live_server.connect() as wire:
        response = wire.request(
            b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000000\r\n\r\n"
        )
    assert response.status == 413


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_invalid_field_is_refused_and_named(caller: RouteCaller, route: Route, place: int) -> None:
    caller.add_new_resources(route)
    valid = caller.body(route, place)
    struct = body_struct(route, valid)
    before = caller.database_content(route)
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        for value in WRONG_VALUES:
            if is_wrong(value, field.type):
                content = json.dumps({**valid, name: value}).encode()
                check_error(caller.send(route, content), 400, name)
        if field.required:
            rest = {other: value for other, value in valid.items() if other != name}
            check_error(caller.send(route, json.dumps(rest).encode()), 400, name)
    if struct.__struct_config__.forbid_unknown_fields:
        check_error(caller.send(route, json.dumps({**valid, "colour": 1}).encode()), 400, "colour")
    assert caller.database_content(route) == before


# Raw JSON values that are valid in no field.
NEVER_VALID = [
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
# Raw JSON values that are valid in some fields, and cause no server error in any.
RARELY_VALID = [
    b'"\\u202e\\u200b"',
    b'"\\r\\nX: y"',
    b'"\\n"',
    b'"\\uffff"',
    b'"\\ud83d\\ude00"',
    b"1e2",
    b"-0",
    b"-0.0",
]
# Fields that are kept as JSON, where a NUL is an ordinary escape; and numbers of any size.
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
def test_values_that_are_never_valid_are_refused(caller: RouteCaller, route: Route, place: int) -> None:
    caller.add_new_resources(route)
    valid = caller.body(route, place)
    before = caller.database_content(route)
    for name in valid:
        if (route.method, route.path, name) in FREE_FORM:
            continue
        for value in NEVER_VALID:
            response = caller.send(route, with_raw_field(valid, name, value))
            assert 400 <= response.status_code < 500, f"{name} {value[:40]!r}: {response.text[:300]}"
            check_error(response, response.status_code)
    assert caller.database_content(route) == before


@pytest.mark.parametrize(("route", "place"), BODY_CASES, ids=case_name)
def test_rarely_valid_values_cause_no_server_error(caller: RouteCaller, route: Route, place: int) -> None:
    caller.add_new_resources(route)
    valid = caller.body(route, place)
    for name in valid:
        for value in [*RARELY_VALID, *NEVER_VALID]:
            response = caller.send(route, with_raw_field(valid, name, value))
            assert response.status_code < 500, f"{name} {value[:40]!r}: {response.text[:300]}"


DEPTHS = [10, 100, 300, 480, 500, 900, *range(960, 1004, 2), 1100, 5000]


@pytest.mark.parametrize(
    ("path", "before", "after"),
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
def test_deeply_nested_free_form_values_cause_no_server_error(
    caller: RouteCaller, path: str, before: bytes, after: bytes, nesting: tuple[bytes, bytes]
) -> None:
    route = next(route for route in WITH_BODY if route.path == path)
    for depth in DEPTHS:
        inner = nesting[0] * depth + b"1" + nesting[1] * depth
        response = caller.send(route, before + inner + after)
        assert response.status_code < 500, f"{depth}: {response.text}"
        if response.status_code >= 400:
            check_error(response, 400)
    # Accepted values can also be delivered.
    outcome = caller.server.live_server.wait_for(caller.server.node.outbox.dispatcher.run_once())
    assert outcome.failed == outcome.retried == 0
    updates = next(route for route in every_route() if route.path.endswith("/self/updates"))
    assert caller.request(updates, updates.path).status_code == 200
    for other_route in every_route():
        if (
            other_route.method == "GET"
            and other_route.path.startswith("/apiv1/users")
            and "install-config" in other_route.path
        ):
            assert caller.request(other_route, fill_path(other_route, caller.resources)).status_code < 500


NOT_NUMBERS = ["abc", "-1", "+1", "1.5", "0x1", "1e3", "%201", "1%20", "1%0A", "%00", "1%00", "%D9%A3", "%FF", "1,2"]
UNKNOWN_IDS = ["0", "9223372036854775807", "9223372036854775808", str(2**70), "9" * 5000]


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_PATH, ids=route_name)
def test_invalid_ids_in_paths_are_refused(caller: RouteCaller, route: Route) -> None:
    # A tag need not exist: see tests/identity/test_tags.py.
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{") and part != "{tag}"]
    for name in names:
        for text in [*NOT_NUMBERS, *UNKNOWN_IDS]:
            written = replace(route, path=route.path.replace(f"{{{name}}}", text))
            path = fill_path(written, caller.resources)
            response = caller.request(route, path)
            # If an id is a text, any unknown text is not found.
            if text in NOT_NUMBERS and name not in TEXT_IDS:
                check_error(response, 400, name)
            else:
                check_error(response, 404)


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", WITH_QUERY, ids=route_name)
def test_invalid_query_parameters_are_refused(caller: RouteCaller, route: Route) -> None:
    # Without the required site, the route would report no other parameter.
    needed = f"site_id={caller.resources.edge.site_id}&" if route.path.endswith("/admin/telemetry") else ""
    path = fill_path(route, caller.resources)
    for query in route.query:
        before = needed if query.name != "site_id" else ""
        for text in wrong_texts(query):
            check_error(caller.request(route, f"{path}?{before}{query.name}={text}"), 400, query.name)
        for text in ["", "abc", "%00", "%FF", "%ED%A0%80"] if is_free_text(query) else []:
            assert caller.request(route, f"{path}?{before}{query.name}={text}").status_code < 500


def is_free_text(query: Query) -> bool:
    """Whether any text is a valid value."""
    return query.schema.get("type") == "string" and not {"enum", "format"} & set(query.schema)


def wrong_texts(query: Query) -> list[str]:
    twice = [f"a&{query.name}=b"]
    if is_free_text(query) and query.name != "cursor":
        return twice
    wrong = ["", "abc", "%00", "%FF", "%ED%A0%80", *twice]
    if query.schema.get("type") == "integer":
        wrong += [*NOT_NUMBERS, str(2**70), str(2**63), "9" * 5000, f"1&{query.name}=1"]
    return wrong


@pytest.mark.usefixtures("nothing_changes")
@pytest.mark.parametrize("route", FORMS, ids=route_name)
def test_invalid_forms_of_pages_are_refused(caller: RouteCaller, route: Route) -> None:
    for content in [b"", b"\xff", b"%ff=%ff", b"a=%00", b"&" * 1000, b"user_code=%ED%A0%80", b"decision=approve"]:
        response = caller.send(route, content, FORM)
        assert 400 <= response.status_code < 500, response.text
        assert response.headers["content-type"].startswith("text/html")
    assert caller.send(route, b"{}", JSON).status_code in (403, 415)
    assert caller.send(route, b"a" * 20_000, FORM).status_code in (403, 413)


@pytest.mark.parametrize("code", ["%00", "%FF", "%ED%A0%80", "a" * 3000, "%3Cscript%3E", "1&user_code=2"])
def test_unusual_codes_on_page_cause_no_server_error(caller: RouteCaller, code: str) -> None:
    route = next(route for route in every_route() if route_name(route) == "GET /device")
    response = caller.request(route, f"/device?user_code={code}")
    assert response.status_code < 500
    assert "<script>" not in response.text


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
def test_random_bodies_cause_no_server_error(caller: RouteCaller, route: Route, place: int) -> None:
    caller.add_new_resources(route)
    valid = caller.body(route, place)
    names = st.sampled_from(sorted(valid)) if valid else st.nothing()
    changed = st.dictionaries(names, JSON_VALUES, min_size=1, max_size=3).map(lambda changes: {**valid, **changes})

    @settings(max_examples=25 * EXAMPLES_FACTOR, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changed | JSON_VALUES)
    def check(body: Any) -> None:
        response = caller.send(route, json.dumps(body).encode())
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            check_error(response, response.status_code)

    check()
