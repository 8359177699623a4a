import pytest

from restante.database import errors
from restante.database.errors import AlreadyRunning, DatabaseError, DatabaseUnavailable, UniqueViolation


@pytest.mark.parametrize("kind", [DatabaseUnavailable, UniqueViolation, AlreadyRunning])
def test_every_failure_is_a_database_error(kind: type[Exception]) -> None:
    assert issubclass(kind, DatabaseError)
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_unique_violation_says_which() -> None:
    assert UniqueViolation("users.email").constraint == "users.email"
