"""Values of statements, as they travel to PostgreSQL.

    int, bool   64 bits, whatever their size, so that a statement is prepared once and not once for each magnitude
    float       64 bits
    bytes       as they are
    str, None   as text without a type: the server takes it for what the statement wants there

The driver knows these and many more, and looks each value up anew; a statement's few are told apart more quickly here.
"""

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
from psycopg.pq import Format


class _Pack(Protocol):
    def __call__(self, value: Any, /) -> bytes: ...


_whole: _Pack = struct.Struct("!q").pack
_fraction: _Pack = struct.Struct("!d").pack

# The server's numbers of types.
_UNTYPED, _BYTEA, _INT8, _FLOAT8 = 0, 17, 20, 701

Types = tuple[int, ...]


def encoded(values: Sequence[Any]) -> tuple[list[bytes | None], Types]:
    """The values as bytes, and of what type each is. Raises what the driver would raise: DataError."""
    sent: list[bytes | None] = []
    types: list[int] = []
    for value in values:
        kind = type(value)
        if kind is str:
            sent.append(_text(value))
            types.append(_UNTYPED)
        elif kind is int:
            sent.append(_number(value))
            types.append(_INT8)
        elif value is None:
            sent.append(None)
            types.append(_UNTYPED)
        else:
            data, type_number = _less_common(value)
            sent.append(data)
            types.append(type_number)
    return sent, tuple(types)


def formats_of(types: Types) -> list[Format]:
    return [Format.TEXT if each == _UNTYPED else Format.BINARY for each in types]


def _less_common(value: Any) -> tuple[bytes, int]:
    """Bytes, fractions, and what is a text or a number by descent: states and the like."""
    if isinstance(value, bytes):
        return value, _BYTEA
    if isinstance(value, float):
        return _fraction(value), _FLOAT8
    if isinstance(value, int):
        return _number(int(value)), _INT8
    if isinstance(value, str):
        return _text(str(value)), _UNTYPED
    raise psycopg.ProgrammingError(f"a value of type {type(value).__name__} cannot be sent")


def _text(value: str) -> bytes:
    if "\0" in value:
        raise psycopg.DataError("text cannot contain NUL characters")
    return value.encode()


def _number(value: int) -> bytes:
    try:
        return _whole(value)
    except struct.error:
        raise psycopg.DataError("a whole number is larger than 64 bits") from None
