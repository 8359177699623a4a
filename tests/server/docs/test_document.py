"""The OpenAPI document of all routes: valid, and good enough for generators and linters of clients."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from restante.server.docs.openapi import TAGS, document
from tests.server.route_table import every_route

BODILESS = ("204", "303", "304")
# RFC and framework: an empty body with status 200.
EMPTY = {("/ssf/subjects:add", "post", "200")}


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return document(every_route())


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def schemas_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from schemas_in(each)


def test_document_is_valid_openapi(openapi: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(openapi).iter_errors()] == []


def test_every_success_has_a_schema(openapi: dict[str, Any]) -> None:
    without = {
        (path, method, status)
        for path, method, operation in operations(openapi)
        for status, response in operation["responses"].items()
        if status < "400" and status not in BODILESS and "content" not in response
    }
    assert without == EMPTY


def test_every_error_has_a_body_or_a_reference(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for status, response in operation["responses"].items():
            assert status < "400" or "$ref" in response or "content" in response, f"{method} {path} {status}"


def test_every_tag_is_described(openapi: dict[str, Any]) -> None:
    assert {tag["name"] for tag in openapi["tags"]} == set(TAGS)


def test_schema_names_are_type_names(openapi: dict[str, Any]) -> None:
    for name, schema in openapi["components"]["schemas"].items():
        assert re.fullmatch("[A-Z][A-Za-z0-9]*", name)
        assert schema.get("title", name) == name


def test_every_component_is_used(openapi: dict[str, Any]) -> None:
    used = {each["$ref"] for each in schemas_in(openapi) if isinstance(each.get("$ref"), str)}
    for kind in ("schemas", "responses"):
        assert {f"#/components/{kind}/{name}" for name in openapi["components"][kind]} <= used


def test_arrays_have_items_and_free_form_objects_say_so(openapi: dict[str, Any]) -> None:
    for schema in schemas_in(openapi["components"]["schemas"]):
        if schema.get("type") == "array":
            assert "items" in schema or "prefixItems" in schema, schema
        if schema.get("type") == "object":
            assert schema.get("properties") or "additionalProperties" in schema, schema


def test_examples_fit_their_schemas(openapi: dict[str, Any]) -> None:
    for path, method, operation in operations(openapi):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            named = [each["value"] for each in media.get("examples", {}).values()]
            validator = OAS31Validator({**media["schema"], "components": openapi["components"]})
            for example in [media["example"]] if "example" in media else named:
                assert [error.message for error in validator.iter_errors(example)] == [], f"{method} {path}"


@pytest.mark.parametrize(
    ("method", "path", "name", "is_required"),
    [
        ("get", "/apiv1/devices/self/updates", "If-None-Match", False),
        ("get", "/apiv1/devices/self/install-config", "If-None-Match", False),
        ("post", "/api/edge/v1/admin/commands", "Idempotency-Key", False),
        ("post", "/admin/events", "Idempotency-Key", False),
        ("post", "/events", "x-fapi-interaction-id", False),
        ("get", "/api/edge/v1/admin/telemetry", "site_id", True),
        ("get", "/ssf/status", "stream_id", True),
        ("delete", "/ssf/streams", "stream_id", True),
        ("get", "/ssf/streams", "stream_id", False),
    ],
)
def test_parameters_that_clients_need_are_described(
    openapi: dict[str, Any], method: str, path: str, name: str, is_required: bool
) -> None:
    parameters = {each["name"]: each for each in openapi["paths"][path][method]["parameters"]}
    assert parameters[name].get("required", False) is is_required


@pytest.mark.parametrize(
    ("method", "path", "status", "header"),
    [
        ("get", "/apiv1/devices/self/updates", "200", "ETag"),
        ("get", "/apiv1/devices/self/updates", "204", "X-Poll-Interval"),
        ("get", "/apiv1/devices/self/install-config", "304", "ETag"),
        ("get", "/apiv1/users/{user_id}/devices", "200", "Link"),
        ("post", "/admin/events", "201", "Idempotency-Replayed"),
        ("post", "/events", "200", "x-fapi-interaction-id"),
    ],
)
def test_response_headers_that_clients_need_are_described(
    openapi: dict[str, Any], method: str, path: str, status: str, header: str
) -> None:
    assert header in openapi["paths"][path][method]["responses"][status]["headers"]


def test_retry_after_is_described_where_it_is_sent(openapi: dict[str, Any]) -> None:
    for name, response in openapi["components"]["responses"].items():
        if name.endswith(("TooManyRequests", "Unavailable")):
            assert response["headers"]["Retry-After"]["schema"]["type"] == "integer"


@pytest.mark.parametrize("status", ["401", "403", "415"])
def test_errors_of_device_page_are_described(openapi: dict[str, Any], status: str) -> None:
    assert "text/html" in openapi["paths"]["/device"]["post"]["responses"][status]["content"]


def test_unknown_outbox_is_described(openapi: dict[str, Any]) -> None:
    assert "404" in openapi["paths"]["/apiv1/outbox"]["get"]["responses"]
