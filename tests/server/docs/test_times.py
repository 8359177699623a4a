"""One form of time in every response: RFC 3339 in UTC with milliseconds, except where a specification fixes another.

The schemas of the OpenAPI document are walked, and the responses of a server to one request of every route.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from restante.cli.remote.times import is_time_name
from restante.server.docs.openapi import document
from restante.web.routes import Access, Route
from tests.server.populated_server import PopulatedServer, fill_path
from tests.server.route_caller import RouteCaller
from tests.server.route_table import case_name, every_route

# Times in another form, by schema and field, with what fixes them.
FIXED_FIELDS = {
    ("SignalView", "ts_ms"): "specification 1",
    ("SentSignal", "ts_ms"): "specification 1: the signal as it is sent",
    **dict.fromkeys((("InstallConfig", "created_at"), ("InstallConfig", "updated_at")), "1-notes: epoch seconds"),
    **dict.fromkeys(
        (("DeviceCertificate", "not_before"), ("DeviceCertificate", "not_after")),
        "1-notes: a self route; agents in the field read epoch seconds",
    ),
    **dict.fromkeys(
        (
            *(("PolledCommand", name) for name in ("expires_at", "signed_at", "lease_until")),
            ("CommandPollResponse", "server_time"),
            ("AckResponse", "next_attempt_at"),
            ("LeaseExtension", "lease_until"),
            ("TelemetryResponse", "received_at"),
            ("SafetyResponse", "received_at"),
        ),
        "specification 2: whole seconds",
    ),
    **dict.fromkeys(
        (
            *(("PendingCommand", name) for name in ("issued_at", "expires_at", "lease_until")),
            ("PendingResponse", "server_time"),
            ("ResultResponse", "next_attempt_at"),
            ("UploadResponse", "received_at"),
        ),
        "4-field-clients H7: whole seconds",
    ),
    ("SignedHead", "at"): "the signature of an audit head covers this number",
}
# Numbers, and text of other meaning, with the name of a time.
NOT_TIMES = {("StoredPolicy", "miners_from")}
# Content that users, devices and collectors wrote, and bytes that are hashed as they are.
OPAQUE = frozenset({"params", "ref", "payload", "claims", "events", "installs", "installs_json", "record", "detail"})
MACHINES = (
    *(Access.device, Access.collector, Access.older_collector),
    *(Access.client, Access.subscriber, Access.ssf_read, Access.ssf_manage),
)
# Routes of operators whose body is not JSON of this server: rows as they were hashed, standards, pages.
OTHER_BODIES = ("GET /api/edge/v1/admin/audit/export", "POST /api/edge/v1/admin/audit/anchor")

OWN_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ANY_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\s,;\"']*")
# From 2001 to 2286, in seconds and in milliseconds.
EPOCH = (range(10**9, 10**10), range(10**12, 10**13))

OPERATOR_ROUTES = [
    route
    for route in every_route()
    if route.access not in (*MACHINES, Access.open) and f"{route.method} {route.path}" not in OTHER_BODIES
]


def response_schemas(openapi: dict[str, Any]) -> dict[str, Any]:
    """The named schemas that responses use, directly or through others."""
    named = openapi["components"]["schemas"]
    waiting = [
        name
        for methods in openapi["paths"].values()
        for operation in methods.values()
        for name in references(operation["responses"])
    ]
    found: dict[str, Any] = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = named[name]
            waiting += references(named[name])
    return found


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        target = part.get("$ref", "")
        if isinstance(target, str) and target.startswith("#/components/schemas/"):
            yield target.rpartition("/")[2]
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references(each)


def time_fields(openapi: dict[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """The fields that are times, by their name or by their format."""
    for name, schema in response_schemas(openapi).items():
        for field, described in schema.get("properties", {}).items():
            kinds = described.get("anyOf", [described])
            time = next((each for each in kinds if each.get("format") == "date-time"), None)
            if time is not None or is_time_name(field):
                yield (name, field), time or described


def test_every_time_is_described_in_one_form() -> None:
    fields = dict(time_fields(document(every_route())))
    others = {
        place
        for place, described in fields.items()
        if described.get("format") != "date-time" or not all(map(OWN_FORM.fullmatch, described["examples"]))
    }
    assert others == FIXED_FIELDS.keys() | NOT_TIMES
    assert len(fields) > 100


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouteCaller]:
    server = PopulatedServer(tmp_path_factory.mktemp("times"))
    yield RouteCaller(server)
    server.close()


@pytest.mark.parametrize("route", OPERATOR_ROUTES, ids=case_name)
def test_response_has_times_in_one_form(caller: RouteCaller, route: Route) -> None:
    # Earlier cases may have revoked or deleted the resources.
    caller.resources = caller.server.add_resources(caller.server.fleet.user_id)
    query = f"?site_id={caller.resources.edge.site_id}" if route.path.endswith("/admin/telemetry") else ""
    response = caller.request(route, fill_path(route, caller.resources) + query)
    assert response.status_code < 400, response.text
    assert list(other_times(response)) == []


@pytest.mark.parametrize("route", [each for each in OPERATOR_ROUTES if each.path.endswith("/export")], ids=case_name)
@pytest.mark.parametrize("format", ["csv", "json"])
def test_export_has_times_in_one_form(caller: RouteCaller, route: Route, format: str) -> None:
    response = caller.request(route, f"{fill_path(route, caller.resources)}?format={format}")
    assert response.status_code == 200
    assert list(other_times(response)) == []


def other_times(response: httpx.Response) -> Iterator[str]:
    """The times of a body that have another form, with their place."""
    if response.headers.get("content-type", "").startswith("application/json"):
        yield from times_within(response.json(), "")
    else:
        yield from (text for text in ANY_TIME.findall(response.text) if not OWN_FORM.fullmatch(text.rstrip(".:)")))


def times_within(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in OPAQUE and name != "ts_ms":
                yield from times_within(each, f"{place}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from times_within(each, place)
    elif isinstance(value, str):
        texts = ANY_TIME.findall(value)
        yield from (f"{place}: {text}" for text in texts if not OWN_FORM.fullmatch(text.rstrip(".:)")))
    elif isinstance(value, int) and any(value in each for each in EPOCH):
        yield f"{place}: {value}"


def test_requests_accept_times_with_and_without_milliseconds(caller: RouteCaller) -> None:
    for time in ("2026-01-18T10:00:00Z", "2026-01-18T10:00:00.250Z", "2026-01-18T11:00:00.250+01:00"):
        for path in ("/apiv1/devices?seen_before=", "/apiv1/outbox?since=", "/api/edge/v1/admin/audit?since="):
            query = path + time.replace("+", "%2B")
            answered = caller.server.client.get(query, headers=caller.admin_headers)
            assert answered.status_code == 200, answered.text
