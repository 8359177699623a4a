import json

import pytest
from starlette.requests import Request

from restante.core.errors import (
    BadInput,
    Conflict,
    MissingField,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooLarge,
    TooManyRequests,
    Unavailable,
    UnknownField,
    WrongMediaType,
)
from restante.events import errors
from restante.events.errors import SHORT_CODES
from restante.events.response_format import INTERACTION_ID, RESPONSE_FORMAT, V3, V4, accepts_json, require_acceptable
from restante.web.errors.challenges import challenge
from restante.web.response import ApiResponse

ERRORS: list[tuple[RestanteError, str, str, str | None]] = [
    (BadInput("maxEvents", "a number"), "400 BadRequest", "Field.Invalid", "maxEvents"),
    (MissingField("Data.Version"), "400 BadRequest", "Field.Missing", "Data.Version"),
    (UnknownField("maxevents"), "400 BadRequest", "Field.Unexpected", "maxevents"),
    (BadInput("body", "valid JSON"), "400 BadRequest", "Resource.InvalidFormat", "body"),
    (errors.ExpectedField("jwks", "keys"), "400 BadRequest", "Field.Expected", "jwks"),
    (errors.InvalidHeader("Accept", "one"), "400 BadRequest", "Header.Invalid", "Accept"),
    (errors.MissingHeader("Host", "one"), "400 BadRequest", "Header.Missing", "Host"),
    (errors.UnsupportedEventType("events", "known"), "400 BadRequest", "Unsupported.EventType", "events"),
    (NotAllowed(), "403 Forbidden", "Reauthenticate", None),
    (NotFound(), "404 NotFound", "Resource.NotFound", None),
    (errors.NotAcceptable(), "406 NotAcceptable", "Header.Invalid", "Accept"),
    (Conflict(), "409 Conflict", "Rules.ResourceAlreadyExists", None),
    (errors.AlreadyExists(), "409 Conflict", "Rules.ResourceAlreadyExists", None),
    (TooLarge(), "413 RequestEntityTooLarge", "Resource.InvalidFormat", None),
    (WrongMediaType(), "415 UnsupportedMediaType", "Header.Invalid", "Content-Type"),
    (TooManyRequests(retry_after_seconds=1), "429 TooManyRequests", "UnexpectedError", None),
    (Unavailable(retry_after_seconds=1), "503 ServiceUnavailable", "UnexpectedError", None),
    (RestanteError(), "500 InternalServerError", "UnexpectedError", None),
]


@pytest.mark.parametrize(("error", "code", "error_code", "path"), ERRORS, ids=lambda value: type(value).__name__)
def test_every_error_has_the_open_banking_body(
    error: RestanteError, code: str, error_code: str, path: str | None
) -> None:
    response = RESPONSE_FORMAT.error(error)
    body = json.loads(response.body)
    assert response.status == error.status
    assert len(body.pop("Id")) == 36
    item = {"ErrorCode": f"UK.OBIE.{error_code}", "Message": error.message, **({"Path": path} if path else {})}
    assert body == {"Code": code, "Message": error.message, "Errors": [item]}
    assert (b"cache-control", b"no-store") in response.headers


def test_401_has_a_challenge_and_no_body() -> None:
    response = RESPONSE_FORMAT.error(NotAuthenticated())
    assert (response.status, response.body) == (401, b"")
    assert set(response.headers) == {(b"cache-control", b"no-store"), *challenge(NotAuthenticated())}


@pytest.mark.parametrize(("error", "_code", "error_code", "_path"), ERRORS, ids=lambda value: type(value).__name__)
def test_versions_have_their_own_error_codes(
    error: RestanteError, _code: str, error_code: str, _path: str | None
) -> None:
    [long] = json.loads(V3.error(error).body)["Errors"]
    [short] = json.loads(V4.error(error).body)["Errors"]
    assert (long.pop("ErrorCode"), short.pop("ErrorCode")) == (f"UK.OBIE.{error_code}", SHORT_CODES[error_code])
    assert long == short


def test_short_codes_are_distinct_and_have_four_characters() -> None:
    assert {len(code) for code in SHORT_CODES.values()} == {4}
    assert len(set(SHORT_CODES.values())) == len(SHORT_CODES) == 21


def test_versions_send_the_charset_and_operators_routes_do_not() -> None:
    for version in (V3, V4):
        for response in (version.success({}), version.error(NotFound())):
            assert response.headers[0] == (b"content-type", b"application/json; charset=utf-8")
    assert RESPONSE_FORMAT.success({}).headers[0] == (b"content-type", b"application/json")


@pytest.mark.parametrize(
    ("error", "message", "path"),
    [
        (NotFound("x" * 500), "x" * 500, None),
        (NotFound("x" * 501), "x" * 499 + "…", None),
        (BadInput("y" * 600, "z"), "y" * 499 + "…", "y" * 499 + "…"),
        (BadInput("", "z"), ": expected z", None),
    ],
)
def test_texts_fit_the_lengths_of_the_schema(error: RestanteError, message: str, path: str | None) -> None:
    body = json.loads(V4.error(error).body)
    assert body["Message"] == body["Errors"][0]["Message"] == message
    assert body["Errors"][0].get("Path") == path


def test_429_has_retry_after() -> None:
    assert (b"retry-after", b"7") in RESPONSE_FORMAT.error(TooManyRequests(retry_after_seconds=7)).headers


def test_success_is_the_object_itself() -> None:
    assert RESPONSE_FORMAT.success({"a": 1}).body == b'{"a":1}'
    assert RESPONSE_FORMAT.success(None, 204) == ApiResponse(204)
    assert RESPONSE_FORMAT.success_schema({"type": "object"}) == {"type": "object"}


def request_with(*headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "headers": list(headers)})


def echoed_id(*headers: tuple[bytes, bytes]) -> bytes:
    [(name, value)] = RESPONSE_FORMAT.finalize(request_with(*headers), ApiResponse(200, ())).headers
    assert name == INTERACTION_ID
    return value


def test_interaction_id_is_echoed() -> None:
    assert echoed_id((INTERACTION_ID, b"1af4c0e6b5da49f6b1aebf439e87c199")) == b"1af4c0e6b5da49f6b1aebf439e87c199"


@pytest.mark.parametrize("sent", [[], [b""], [b"a b"], [b"\xe4"], [b"a" * 129], [b"one", b"two"]])
def test_missing_or_unsafe_interaction_id_is_generated(sent: list[bytes]) -> None:
    generated = {echoed_id(*((INTERACTION_ID, value) for value in sent)) for _ in range(2)}
    assert [len(value) for value in generated] == [36, 36]


@pytest.mark.parametrize("sent", [[b""], [b"a b"], [b"\xe4"], [b"a" * 129], [b"one", b"two"]])
def test_unsafe_interaction_id_is_refused(sent: list[bytes]) -> None:
    with pytest.raises(errors.InvalidHeader, match="x-fapi-interaction-id"):
        require_acceptable(request_with(*((INTERACTION_ID, value) for value in sent)))


def test_client_that_does_not_accept_json_is_refused() -> None:
    require_acceptable(request_with((b"accept", b"text/html"), (b"accept", b"application/json")))
    with pytest.raises(errors.NotAcceptable):
        require_acceptable(request_with((b"accept", b"text/html")))


@pytest.mark.parametrize(
    ("accept", "is_accepted"),
    [
        (b"", True),
        (b"*/*", True),
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"text/html, application/*;q=0.5", True),
        (b"application/jwt", False),
        (b"text/html;q=1", False),
        (b"application/json;q=0, */*", False),
        (b"application/json; q=0.000", False),
        (b"*/*;q=0, application/json;q=0.001", True),
    ],
)
def test_accept_header_is_evaluated(accept: bytes, is_accepted: bool) -> None:
    assert accepts_json(accept) is is_accepted
