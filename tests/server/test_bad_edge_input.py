"""Invalid input of collectors and operators beyond single fields: batches, free-form values, compressed bodies.

It is refused or reported, never a 5xx; and accepted input can be delivered and listed.
"""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.web.routes import Route
from tests.examples import EXAMPLES_FACTOR
from tests.server.populated_server import PopulatedServer, fill_path
from tests.server.route_caller import JSON, RouteCaller, check_error
from tests.server.route_table import every_route, route_name, route_named
from tests.server.valid_edge_bodies import HANDLER_DECODED_BODIES

NESTED = 100_000
BATCHES = [route for route in every_route() if (route.method, route.path) in HANDLER_DECODED_BODIES]
TELEMETRY = [route for route in BATCHES if "/safety/" not in route.path]
DECOMPRESSED_BYTES_MAX = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouteCaller]:
    server = PopulatedServer(tmp_path_factory.mktemp("bad_edge_input"))
    yield RouteCaller(server)
    server.close()


INVALID_BATCHES = {
    "nothing": b"",
    "an open brace": b"{",
    "a word": b"nope",
    "two values": b"{}{}",
    "invalid UTF-8": b'{"\xff":1}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "null": b"null",
    "a number": b"1",
    "a text": b'"x"',
    "an object of another kind": b'{"a":1}',
    "not a number": b"NaN",
    "deep lists": b"[" * NESTED,
    "deep objects": b'{"a":' * NESTED,
    "records that are none": b'{"records":1,"events":1}',
    "records that are an object": b'{"records":{},"events":{}}',
    "a list cut off": b'{"records":[{},"events":[{}',
}


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_body_that_is_no_batch_is_refused(caller: RouteCaller, route: Route) -> None:
    before = caller.database_content()
    for name, content in INVALID_BATCHES.items():
        response = caller.send(route, content)
        assert response.status_code == 400, f"{name}: {response.text[:300]}"
        check_error(response, 400)
    assert caller.database_content() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_other_content_type_is_refused(caller: RouteCaller, route: Route) -> None:
    content = json.dumps(caller.body(route)).encode()
    before = caller.database_content()
    for media_type in ("text/plain", "application/jsonx", "", "application/gzip"):
        check_error(caller.send(route, content, {"content-type": media_type}), 415)
    for encoding in ("br", "gzip, gzip", "deflate", "zstd"):
        check_error(caller.send(route, content, {**JSON, "content-encoding": encoding}), 415)
    assert caller.database_content() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_invalid_gzip_is_refused(caller: RouteCaller, route: Route) -> None:
    packed = gzip.compress(json.dumps(caller.body(route)).encode())
    before = caller.database_content()
    for content in (b"", b"\x1f\x8b", packed[:-1], packed[:20], packed + b"more", b"{}", packed[:-8] + b"\0" * 8):
        check_error(caller.send(route, content, {**JSON, "content-encoding": "gzip"}), 400, "body")
    assert caller.database_content() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_too_large_batch_is_refused(caller: RouteCaller, route: Route) -> None:
    most = caller.server.node.settings.body_bytes_max
    before = caller.database_content()
    check_error(caller.send(route, b" " * (most + 1)), 413)
    bomb = gzip.compress(b" " * (DECOMPRESSED_BYTES_MAX + 1))
    assert len(bomb) < most
    check_error(caller.send(route, bomb, {**JSON, "content-encoding": "gzip"}), 413)
    many = json.dumps({"records": [1] * 10_001, "events": [1] * 1001}).encode()
    check_error(caller.send(route, many), 413)
    assert caller.database_content() == before


# Unusual raw values for fields of a record or an event.
ODD_VALUES: list[bytes] = [
    *(b"null", b"true", b"0", b"-1", b"1.5", b"1e2", b"1e400", b"-1e400", b"-0.0", b"1" * 30, b"1" * 5000),
    *(str(number).encode() for number in (2**53, 2**63 - 1, 2**63, 2**64, 2**70)),
    *(b'""', b'"x"', b'"\\u0000"', b'"\\ud800 and more"', b'"\\uffff"', b'"\xff"', b'"' + b"a" * 5000 + b'"'),
    *(b"[]", b"{}", b'{"a":1}', b"[" * 500 + b"]" * 500, b"[" * 2000 + b"]" * 2000, b'{"a":' * 900 + b"1" + b"}" * 900),
    *(b'"2026-13-01T00:00:00Z"', b'"9999-12-31T23:59:59-12:00"', b'"0001-01-01T00:00:00Z"', b'"2026-01-18"'),
]


def with_odd_value(entry: dict[str, Any], name: str, value: bytes) -> bytes:
    rest = json.dumps({other: kept for other, kept in entry.items() if other != name}).encode()[:-1]
    return rest + b',"%b":%b}' % (name.encode(), value)


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_invalid_entry_does_not_affect_valid_entry(caller: RouteCaller, route: Route) -> None:
    """If the JSON itself is valid, the valid entry of the batch is kept."""
    body = caller.body(route)
    list_name = "records" if route in TELEMETRY else "events"
    valid = body[list_name][0]
    for name in valid:
        for value in ODD_VALUES:
            entries = b"[%b,%b]" % (json.dumps(valid).encode(), with_odd_value(valid, name, value))
            response = caller.send(route, b'{"%b":%b}' % (list_name.encode(), entries))
            assert response.status_code in (200, 207, 400), f"{name} {value[:40]!r}: {response.text[:300]}"
            if response.status_code == 400:
                check_error(response, 400)
            else:
                assert response.json()["processed"] >= 1, f"{name} {value[:40]!r}: {response.text[:300]}"
    check_all_can_be_read(caller)


DEPTHS = [10, 15, 16, 17, 100, 300, 480, 500, 900, *range(960, 1004, 2), 1100, 5000]
FREE_FORM = {
    "POST /api/edge/v1/commands/{command_id}/ack": [
        b'{"status":"running","message":"{n}","before_snapshot":{"a":*}}',
        b'{"status":"running","message":"{n}","unknown":*}',
        b'{"status":"running","message":"{n}","signature":"00","unknown":*}',
        b'{"status":"running","message":"{n}","signature":"00","after_snapshot":{"a":*}}',
    ],
    "POST /api/edge/v1/admin/commands": [
        b'{"site_id":{site},"miner_id":{miner},"command_type":"start","params":{"a":*}}',
    ],
    "PATCH /api/edge/v1/admin/rules/{rule_id}": [b'{"action_parameters":{"a":*}}'],
    "POST /api/edge/v1/telemetry/batch": [b'[{"miner_id":{miner},"ts":"2026-01-18T10:00:00Z","a":*}]'],
    "POST /api/edge/v1/events/safety/batch": [
        b'{"events":[{"miner_id":{miner},"action":"FAN_FAILURE","ts":"2026-01-18T10:00:00Z","snapshot_json":{"a":*}}]}',
    ],
}
FREE_FORM_CASES = [(name, body) for name, bodies in FREE_FORM.items() for body in bodies]


@pytest.mark.parametrize(("name", "body"), FREE_FORM_CASES)
@pytest.mark.parametrize("nesting", [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_deeply_nested_free_form_values_cause_no_server_error(
    caller: RouteCaller, name: str, body: bytes, nesting: tuple[bytes, bytes]
) -> None:
    route = route_named(name)
    caller.add_new_resources(route)
    edge = caller.resources.edge
    filled = body.replace(b"{site}", b"%d" % edge.site_id).replace(b"{miner}", b"%d" % edge.miner_id)
    for depth in DEPTHS:
        inner = nesting[0] * depth + b"1" + nesting[1] * depth
        response = caller.send(route, filled.replace(b"{n}", b"%d" % depth).replace(b"*", inner))
        assert response.status_code < 500, f"{depth}: {response.text}"
        if response.status_code >= 400:
            check_error(response, response.status_code)
    check_all_can_be_read(caller)


def check_all_can_be_read(caller: RouteCaller) -> None:
    """Check that accepted input can be delivered to collectors and shown to operators in every list."""
    site = f"site_id={caller.resources.edge.site_id}"
    for route in every_route():
        if route.method == "GET" and route.path.startswith("/api/edge/"):
            path = fill_path(route, caller.resources)
            takes_site = any(query.name == "site_id" for query in route.query)
            response = caller.request(route, f"{path}?{site}" if takes_site else path)
            assert response.status_code == 200, f"{route_name(route)}: {response.text[:300]}"


HUGE = {
    "an integer of thousands of digits": b"1" * 5000,
    "a number too large": b"1e999",
    "bytes that are no text": b'"\xff"',
    "a surrogate": b'"\\ud800 and more"',
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("signature", [b"", b'"signature":"00",'], ids=["not signed", "signed"])
def test_unusual_values_in_unknown_fields_cause_no_server_error(
    caller: RouteCaller, name: str, signature: bytes
) -> None:
    """A signature also covers unknown fields: a value that cannot be written again cannot have been signed."""
    route = route_named("POST /api/edge/v1/commands/{command_id}/ack")
    caller.add_new_resources(route)
    response = caller.send(route, b'{"status":"running",%b"unknown":%b}' % (signature, HUGE[name]))
    assert response.status_code in ((400, 401) if signature else (200, 400)), response.text
    if response.status_code >= 400:
        check_error(response, response.status_code)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_random_batches_cause_no_server_error(caller: RouteCaller, route: Route) -> None:
    valid = caller.body(route)
    list_name = "records" if route in TELEMETRY else "events"
    names = sorted(valid[list_name][0])
    entries = st.dictionaries(st.sampled_from(names), JSON_VALUES).map(
        lambda changes: {**valid[list_name][0], **changes}
    )
    batches = st.lists(entries | JSON_VALUES, max_size=5).map(
        lambda changes: {**valid, "record_count": None, list_name: changes}
    )

    @settings(max_examples=50 * EXAMPLES_FACTOR, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches | JSON_VALUES)
    def check(body: Any) -> None:
        response = caller.send(route, json.dumps(body).encode())
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            check_error(response, response.status_code)

    check()
    check_all_can_be_read(caller)
