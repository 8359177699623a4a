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
from restante.events import wire
from restante.events.wire import SHAPE, accepts_json, require_acceptable
from restante.web.answer import Answer

ERRORS: list[tuple[RestanteError, str, str, str | None]] = [
    (BadInput("maxEvents", "a number"), "400 BadRequest", "Field.Invalid", "maxEvents"),
    (MissingField("Data.Version"), "400 BadRequest", "Field.Missing", "Data.Version"),
    (UnknownField("maxevents"), "400 BadRequest", "Field.Unexpected", "maxevents"),
    (BadInput("body", "valid JSON"), "400 BadRequest", "Resource.InvalidFormat", "body"),
    (wire.ExpectedField("jwks", "keys"), "400 BadRequest", "Field.Expected", "jwks"),
    (wire.InvalidHeader("Accept", "one"), "400 BadRequest", "Header.Invalid", "Accept"),
    (wire.MissingHeader("Host", "one"), "400 BadRequest", "Header.Missing", "Host"),
    (wire.UnsupportedEventType("events", "known"), "400 BadRequest", "Unsupported.EventType", "events"),
    (NotAllowed(), "403 Forbidden", "Reauthenticate", None),
    (NotFound(), "404 NotFound", "Resource.NotFound", None),
    (wire.NotAcceptable(), "406 NotAcceptable", "Header.Invalid", "Accept"),
    (Conflict(), "409 Conflict", "Rules.ResourceAlreadyExists", None),
    (wire.AlreadyExists(), "409 Conflict", "Rules.ResourceAlreadyExists", None),
    (TooLarge(), "413 RequestEntityTooLarge", "Resource.InvalidFormat", None),
    (WrongMediaType(), "415 UnsupportedMediaType", "Header.Invalid", "Content-Type"),
    (TooManyRequests(retry_after_seconds=1), "429 TooManyRequests", "UnexpectedError", None),
    (Unavailable(retry_after_seconds=1), "503 ServiceUnavailable", "UnexpectedError", None),
    (RestanteError(), "500 InternalServerError", "UnexpectedError", None),
]


@pytest.mark.parametrize(("error", "code", "error_code", "path"), ERRORS, ids=lambda value: type(value).__name__)
def test_every_error_in_open_bankings_words(error: RestanteError, code: str, error_code: str, path: str | None) -> None:
    answer = SHAPE.error(error)
    body = json.loads(answer.body)
    assert answer.status == error.status
    assert len(body.pop("Id")) == 36
    item = {"ErrorCode": f"UK.OBIE.{error_code}", "Message": error.message, **({"Path": path} if path else {})}
    assert body == {"Code": code, "Message": error.message, "Errors": [item]}
    assert (b"cache-control", b"no-store") in answer.headers


def test_who_is_not_known_is_told_how_to_be_and_nothing_else() -> None:
    answer = SHAPE.error(NotAuthenticated())
    assert (answer.status, answer.body) == (401, b"")
    assert set(answer.headers) == {(b"cache-control", b"no-store"), (b"www-authenticate", b"Bearer")}


def test_who_comes_too_often_is_told_when_to_come_back() -> None:
    assert (b"retry-after", b"7") in SHAPE.error(TooManyRequests(retry_after_seconds=7)).headers


def test_a_success_is_the_object_itself() -> None:
    assert SHAPE.success({"a": 1}).body == b'{"a":1}'
    assert SHAPE.success(None, 204) == Answer(204)
    assert SHAPE.envelope({"type": "object"}) == {"type": "object"}


def asked(*headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "headers": list(headers)})


def echoed(*headers: tuple[bytes, bytes]) -> bytes:
    [(name, value)] = SHAPE.in_answer_to(asked(*headers), Answer(200, ())).headers
    assert name == wire.INTERACTION_ID
    return value


def test_the_interaction_id_comes_back_as_it_was_sent() -> None:
    assert echoed((wire.INTERACTION_ID, b"1af4c0e6b5da49f6b1aebf439e87c199")) == b"1af4c0e6b5da49f6b1aebf439e87c199"


@pytest.mark.parametrize("sent", [[], [b""], [b"a b"], [b"\xe4"], [b"a" * 129], [b"one", b"two"]])
def test_where_there_is_none_that_can_be_repeated_one_is_made(sent: list[bytes]) -> None:
    made = {echoed(*((wire.INTERACTION_ID, value) for value in sent)) for _ in range(2)}
    assert [len(value) for value in made] == [36, 36]


@pytest.mark.parametrize("sent", [[b""], [b"a b"], [b"\xe4"], [b"a" * 129], [b"one", b"two"]])
def test_an_interaction_id_that_cannot_be_repeated_is_refused(sent: list[bytes]) -> None:
    with pytest.raises(wire.InvalidHeader, match="x-fapi-interaction-id"):
        require_acceptable(asked(*((wire.INTERACTION_ID, value) for value in sent)))


def test_who_takes_no_json_is_refused() -> None:
    require_acceptable(asked((b"accept", b"text/html"), (b"accept", b"application/json")))
    with pytest.raises(wire.NotAcceptable):
        require_acceptable(asked((b"accept", b"text/html")))


@pytest.mark.parametrize(
    ("accept", "is_json_taken"),
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
def test_what_an_accept_header_allows(accept: bytes, is_json_taken: bool) -> None:
    assert accepts_json(accept) is is_json_taken
