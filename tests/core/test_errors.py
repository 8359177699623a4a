import pytest

from restante.core import errors
from restante.core.errors import BadInput, Conflict, CursorExpired, NotAuthenticated, RestanteError, RetryLater

STATUSES = {
    "BadInput": 400,
    "MissingField": 400,
    "UnknownField": 400,
    "NotAuthenticated": 401,
    "NotAllowed": 403,
    "NotFound": 404,
    "Conflict": 409,
    "CursorExpired": 409,
    "TooLarge": 413,
    "WrongMediaType": 415,
    "Unprocessable": 422,
    "TooManyRequests": 429,
    "Unavailable": 503,
}


@pytest.mark.parametrize(("name", "status"), STATUSES.items())
def test_every_error_has_its_status(name: str, status: int) -> None:
    assert getattr(errors, name).status == status


def test_module_docstring_lists_every_error() -> None:
    documented = errors.__doc__ or ""
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, RestanteError) and kind is not RetryLater:
            assert name in documented


def test_default_message_is_the_docstring() -> None:
    assert Conflict().message == "The present state does not allow this."
    assert Conflict("no").message == "no"


def test_bad_input_names_the_field_and_what_was_expected() -> None:
    error = BadInput("limit", "a whole number")
    assert (error.field, error.message) == ("limit", "limit: expected a whole number")


def test_expired_cursor_has_the_message_of_the_specification() -> None:
    assert CursorExpired("cursor_trimmed", "2-2", "1-1").message == "Cursor expired. Reset required."


def test_not_authenticated_may_carry_a_key() -> None:
    assert NotAuthenticated().key is None
    assert NotAuthenticated("used twice", key="refresh_token_rotated").key == "refresh_token_rotated"
