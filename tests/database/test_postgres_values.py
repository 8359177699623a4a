from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import Any

import psycopg
import pytest

from restante.database.postgres_session import Session
from restante.database.postgres_values import encoded


class Letter(StrEnum):
    a = "a"


class Number(IntEnum):
    one = 1


@pytest.fixture
def session(empty_postgres_url: str) -> Iterator[Session]:
    session = Session({"conninfo": empty_postgres_url})
    yield session
    session.close()


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("BIGINT", 0, 0),
        ("BIGINT", -(2**63), -(2**63)),
        ("BIGINT", 2**63 - 1, 2**63 - 1),
        ("BIGINT", True, 1),
        ("BIGINT", Number.one, 1),
        ("BIGINT", None, None),
        ("DOUBLE PRECISION", 0.1, 0.1),
        ("DOUBLE PRECISION", -1e300, -1e300),
        ("TEXT", "", ""),
        ("TEXT", 'it\'s; \\x41 "ä" 😀\n', 'it\'s; \\x41 "ä" 😀\n'),
        ("TEXT", Letter.a, "a"),
        ("TEXT", None, None),
        ("BYTEA", b"", b""),
        ("BYTEA", bytes(range(256)), bytes(range(256))),
        ("BYTEA", None, None),
        ("BIGINT[]", "{1,2}", [1, 2]),
        ("json", '["a\\u0001"]', ["a\u0001"]),
    ],
)
def test_a_value_is_kept_as_it_was_given(session: Session, column: str, value: Any, kept: Any) -> None:
    session.run_script(f"CREATE TABLE things (thing {column})")
    session.open()
    session.send("INSERT INTO things (thing) VALUES ($1)", [value])
    ((found,),) = session.tuples(session.send("SELECT thing FROM things"))
    session.end()
    assert found == kept


@pytest.mark.parametrize("values", [["a\0b"], [2**63], [-(2**63) - 1]])
def test_what_the_server_could_not_keep_is_not_sent(values: list[Any]) -> None:
    with pytest.raises(psycopg.DataError):
        encoded(values)


def test_what_is_none_of_these_is_a_mistake() -> None:
    with pytest.raises(psycopg.ProgrammingError, match="list"):
        encoded([[1]])


def test_numbers_of_any_size_are_of_one_type() -> None:
    types = {encoded([number])[1] for number in (0, 1, 2**15, 2**31, 2**62, True)}
    assert len(types) == 1
