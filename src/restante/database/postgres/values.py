"""Encodes the values of statements for PostgreSQL.

    int, bool   64 bits, whatever their size: a statement is prepared once, not once per magnitude
    float       64 bits
    bytes       unchanged
    str, None   text without a type: the server infers the type from the statement

The driver supports many more types and searches an adapter for each value; this encoding of the few types that our
statements use is faster.
"""

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
from psycopg.pq import Format


class _Pack(Protocol):
    def __call__(self, value: Any, /) -> bytes: ...


_pack_int: _Pack = struct.Struct("!q").pack
_pack_float: _Pack = struct.Struct("!d").pack

# Type OIDs of the server.
_UNTYPED, _BYTEA, _INT8, _FLOAT8 = 0, 17, 20, 701

Types = tuple[int, ...]


def encode_values(values: Sequence[Any]) -> tuple[list[bytes | None], Types]:
    """The values as bytes, and the type of each. Raises DataError, as the driver would."""
    encoded: list[bytes | None] = []
    types: list[int] = []
    try:
        for value in values:
            kind = type(value)
            if kind is str:
                encoded.append(_encode_text(value))
                types.append(_UNTYPED)
            elif kind is int:
                encoded.append(_pack_int(value))
                types.append(_INT8)
            elif value is None:
                encoded.append(None)
                types.append(_UNTYPED)
            else:
                data, type_oid = _encode_other(value)
                encoded.append(data)
                types.append(type_oid)
    except struct.error:
        raise psycopg.DataError("integer out of range: more than 64 bits") from None
    return encoded, tuple(types)


def formats_of(types: Types) -> list[Format]:
    return [Format.TEXT if each == _UNTYPED else Format.BINARY for each in types]


def _encode_other(value: Any) -> tuple[bytes, int]:
    """Encode bytes, floats, and instances of subclasses of str and int, such as enum members."""
    if isinstance(value, bytes):
        return value, _BYTEA
    if isinstance(value, float):
        return _pack_float(value), _FLOAT8
    if isinstance(value, int):
        return _pack_int(int(value)), _INT8
    if isinstance(value, str):
        return _encode_text(str(value)), _UNTYPED
    raise psycopg.ProgrammingError(f"values of type {type(value).__name__} are not supported")


def _encode_text(value: str) -> bytes:
    if "\0" in value:
        raise psycopg.DataError("text cannot contain NUL characters")
    return value.encode()
