import pytest

from restante.database import errors
from restante.database.errors import AlreadyRunning, DatabaseError, DatabaseUnavailable, UniqueViolation


@pytest.mark.parametrize("kind", [DatabaseUnavailable, UniqueViolation, AlreadyRunning])
def test_every_error_is_a_database_error_and_documented(kind: type[Exception]) -> None:
    assert issubclass(kind, DatabaseError)
    assert kind.__name__ in (errors.__doc__ or "")


def test_unique_violation_names_its_constraint() -> None:
    assert UniqueViolation("users.email").constraint == "users.email"
