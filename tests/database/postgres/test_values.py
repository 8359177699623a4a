from collections.abc import Iterator
from enum import IntEnum, StrEnum
from typing import Any

import psycopg
import pytest

from restante.database.postgres.session import Session
from restante.database.postgres.values import encode_values


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
    ("column", "value", "stored"),
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
def test_value_is_stored_unchanged(session: Session, column: str, value: Any, stored: Any) -> None:
    session.run_script(f"CREATE TABLE things (thing {column})")
    session.begin_pipeline()
    session.send("INSERT INTO things (thing) VALUES ($1)", [value])
    ((found,),) = session.tuples(session.send("SELECT thing FROM things"))
    session.end_pipeline()
    assert found == stored


@pytest.mark.parametrize("values", [["a\0b"], [2**63], [-(2**63) - 1]])
def test_value_that_the_server_cannot_store_is_refused(values: list[Any]) -> None:
    with pytest.raises(psycopg.DataError):
        encode_values(values)


def test_unsupported_type_is_refused() -> None:
    with pytest.raises(psycopg.ProgrammingError, match="list"):
        encode_values([[1]])


def test_integers_of_any_size_have_one_type() -> None:
    types = {encode_values([number])[1] for number in (0, 1, 2**15, 2**31, 2**62, True)}
    assert len(types) == 1
