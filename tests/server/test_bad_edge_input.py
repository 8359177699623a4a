"""What collectors and operators of edge commands can send wrong beyond single fields: batches, free-form values, and
bodies that come packed. Refused or told of, never a 5xx; and what was accepted can be handed on."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.web.routes import Route
from tests.examples import TIMES
from tests.server.good_edge_bodies import READ_BY_THEMSELVES
from tests.server.inhabited import Inhabited, fill_path
from tests.server.knocker import JSON, Knocker, check_refusal
from tests.server.route_table import every_route, route_name

NESTED = 100_000
BATCHES = [route for route in every_route() if (route.method, route.path) in READ_BY_THEMSELVES]
TELEMETRY = [route for route in BATCHES if "/telemetry/" in route.path]
UNPACKED_BYTES_MAX = 8 * 1024 * 1024


@pytest.fixture(scope="module")
def knocker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Knocker]:
    inhabited = Inhabited(tmp_path_factory.mktemp("bad_edge_input"))
    yield Knocker(inhabited)
    inhabited.close()


def route_called(name: str) -> Route:
    return next(route for route in every_route() if route_name(route) == name)


NO_BATCH = {
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
def test_what_is_no_batch(knocker: Knocker, route: Route) -> None:
    before = knocker.things_there()
    for name, content in NO_BATCH.items():
        answer = knocker.send(route, content)
        assert answer.status_code == 400, f"{name}: {answer.text[:300]}"
        check_refusal(answer, 400)
    assert knocker.things_there() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_another_content_type(knocker: Knocker, route: Route) -> None:
    content = json.dumps(knocker.body(route)).encode()
    before = knocker.things_there()
    for media_type in ("text/plain", "application/jsonx", "", "application/gzip"):
        check_refusal(knocker.send(route, content, {"content-type": media_type}), 415)
    for encoding in ("br", "gzip, gzip", "deflate", "zstd"):
        check_refusal(knocker.send(route, content, {**JSON, "content-encoding": encoding}), 415)
    assert knocker.things_there() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_packed_badly(knocker: Knocker, route: Route) -> None:
    packed = gzip.compress(json.dumps(knocker.body(route)).encode())
    before = knocker.things_there()
    for content in (b"", b"\x1f\x8b", packed[:-1], packed[:20], packed + b"more", b"{}", packed[:-8] + b"\0" * 8):
        check_refusal(knocker.send(route, content, {**JSON, "content-encoding": "gzip"}), 400, "body")
    assert knocker.things_there() == before


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_too_large(knocker: Knocker, route: Route) -> None:
    most = knocker.inhabited.node.settings.body_bytes_max
    before = knocker.things_there()
    check_refusal(knocker.send(route, b" " * (most + 1)), 413)
    bomb = gzip.compress(b" " * (UNPACKED_BYTES_MAX + 1))
    assert len(bomb) < most
    check_refusal(knocker.send(route, bomb, {**JSON, "content-encoding": "gzip"}), 413)
    many = json.dumps({"records": [1] * 10_001, "events": [1] * 1001}).encode()
    check_refusal(knocker.send(route, many), 413)
    assert knocker.things_there() == before


# What a field of a record or an event may be sent as, however wrong.
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
def test_odd_values_in_one_entry_cost_no_other(knocker: Knocker, route: Route) -> None:
    """Where the JSON as such is whole, the good neighbour is kept."""
    body = knocker.body(route)
    listed = "records" if route in TELEMETRY else "events"
    good = body[listed][0]
    for name in good:
        for value in ODD_VALUES:
            entries = b"[%b,%b]" % (json.dumps(good).encode(), with_odd_value(good, name, value))
            answer = knocker.send(route, b'{"%b":%b}' % (listed.encode(), entries))
            assert answer.status_code in (200, 207, 400), f"{name} {value[:40]!r}: {answer.text[:300]}"
            if answer.status_code == 400:
                check_refusal(answer, 400)
            else:
                assert answer.json()["processed"] >= 1, f"{name} {value[:40]!r}: {answer.text[:300]}"
    check_all_can_be_read(knocker)


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
def test_free_form_values_may_be_nested_as_deep_as_anybody_likes(
    knocker: Knocker, name: str, body: bytes, nesting: tuple[bytes, bytes]
) -> None:
    route = route_called(name)
    knocker.renew(route)
    edge = knocker.things.edge
    filled = body.replace(b"{site}", b"%d" % edge.site_id).replace(b"{miner}", b"%d" % edge.miner_id)
    for depth in DEPTHS:
        inner = nesting[0] * depth + b"1" + nesting[1] * depth
        answer = knocker.send(route, filled.replace(b"{n}", b"%d" % depth).replace(b"*", inner))
        assert answer.status_code < 500, f"{depth}: {answer.text}"
        if answer.status_code >= 400:
            check_refusal(answer, answer.status_code)
    check_all_can_be_read(knocker)


def check_all_can_be_read(knocker: Knocker) -> None:
    """Whatever was accepted can be handed on: to collectors, and to operators in every list."""
    site = f"site_id={knocker.things.edge.site_id}"
    for route in every_route():
        if route.method == "GET" and route.path.startswith("/api/edge/"):
            path = fill_path(route, knocker.things)
            takes_site = any(query.name == "site_id" for query in route.query)
            answer = knocker.ask(route, f"{path}?{site}" if takes_site else path)
            assert answer.status_code == 200, f"{route_name(route)}: {answer.text[:300]}"


HUGE = {
    "an integer of thousands of digits": b"1" * 5000,
    "a number too large": b"1e999",
    "bytes that are no text": b'"\xff"',
    "a surrogate": b'"\\ud800 and more"',
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("signature", [b"", b'"signature":"00",'], ids=["not signed", "signed"])
def test_odd_values_in_fields_that_nobody_reads(knocker: Knocker, name: str, signature: bytes) -> None:
    """A signature covers what is not read, too: what cannot be written again was not signed."""
    route = route_called("POST /api/edge/v1/commands/{command_id}/ack")
    knocker.renew(route)
    answer = knocker.send(route, b'{"status":"running",%b"unknown":%b}' % (signature, HUGE[name]))
    assert answer.status_code in ((400, 401) if signature else (200, 400)), answer.text
    if answer.status_code >= 400:
        check_refusal(answer, answer.status_code)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("route", BATCHES, ids=route_name)
def test_random_batches(knocker: Knocker, route: Route) -> None:
    good = knocker.body(route)
    listed = "records" if route in TELEMETRY else "events"
    names = sorted(good[listed][0])
    entries = st.dictionaries(st.sampled_from(names), JSON_VALUES).map(lambda some: {**good[listed][0], **some})
    batches = st.lists(entries | JSON_VALUES, max_size=5).map(lambda some: {**good, "record_count": None, listed: some})

    @settings(max_examples=50 * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches | JSON_VALUES)
    def knock(body: Any) -> None:
        answer = knocker.send(route, json.dumps(body).encode())
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            check_refusal(answer, answer.status_code)

    knock()
    check_all_can_be_read(knocker)
