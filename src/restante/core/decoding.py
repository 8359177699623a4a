"""Decoding untrusted values: JSON bodies, already decoded values and integers, into the types that callers declare.

A value that does not fit raises `BadInput` (or a subclass) that names the field and what was expected. For an unknown
field it names the field that was probably meant.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from restante.core.errors import BadInput, MissingField, RestanteError, UnknownField

T = TypeVar("T")

INT64_MAX = 2**63 - 1
DIGITS = re.compile(r"[0-9]+", re.ASCII)

# One decoder per body type that a route declares.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

_TYPE_NAMES = re.compile(r"`([a-z| ]+)`")
_PLAIN_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {" <= ": "at most ", " >= ": "at least ", " < ": "less than ", " > ": "more than "}


def parse_int(name: str, text: str, least: int, most: int) -> int:
    if DIGITS.fullmatch(text) and len(text) <= 19 and least <= int(text) <= most:
        return int(text)
    raise BadInput(name, f"a whole number from {least} to {most}")


def whole_number(value: object, field: str, least: int = 0, most: int = INT64_MAX) -> int:
    """Return a decoded number as an integer, as JSON Schema defines it: 10, 10.0 and 1e1 are the same."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and least <= value <= most
        and value == int(value)
    ):
        return int(value)
    raise BadInput(field, f"a whole number from {least} to {most}")


def decode_json(body: bytes, into: type[T]) -> T:
    """Decode the body into the type. Every error names its field."""
    try:
        decoder = _decoders.get(into)
        if decoder is None:
            decoder = _decoders[into] = msgspec.json.Decoder(into)
        decoded: T = decoder.decode(body)
        return decoded
    except msgspec.ValidationError as error:
        raise _as_bad_input(error, into) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("body", f"valid JSON ({error})") from None


def convert(value: Any, into: type[T], field: str) -> T:
    """Convert a decoded value into the type."""
    try:
        return msgspec.convert(value, type=into)
    except msgspec.ValidationError as error:
        raise _as_bad_input(error, into, field) from None


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` if one of the known names is close, otherwise nothing."""
    close = get_close_matches(wrong, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _as_bad_input(error: msgspec.ValidationError, into: Any, root: str = "body") -> RestanteError:
    what, _, where = str(error).partition(" - at `")
    # msgspec reports a wrong key as "at `key` in `$.counts`".
    where = where.removeprefix("key` in `")
    field = where.rstrip("`").removeprefix("$").removeprefix(".")
    if root != "body":
        field = f"{root}.{field}" if field and not field.startswith("[") else root + field
    missing = re.fullmatch(r"Object missing required field `(.+)`", what)
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", what)
    prefix = f"{field}." if field else ""
    if missing:
        return MissingField(prefix + missing[1])
    if unknown:
        return UnknownField(prefix + unknown[1], suggestion(unknown[1], _field_names(into)))
    known_values = re.fullmatch(r"Invalid (?:enum )?value (.+)", what)
    if known_values:
        return BadInput(field or root, f"one of the values it can have, not {known_values[1]}")
    return BadInput(field or root, _in_plain_words(what))


def _in_plain_words(what: str) -> str:
    """What msgspec expected, without its names of types: "Expected `int | null`, got `str`"."""
    if what.startswith("Invalid "):
        return f"a valid {what.removeprefix('Invalid ')}"
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    for sign, words in _BOUNDS.items():
        if " regex " in expected:
            break
        expected = expected.replace(f"`{sign}", f"`, {words}").replace(sign, f" {words}")
    text = f"{expected}, not {got}" if got else expected
    return _TYPE_NAMES.sub(_plain_types, text)


def _plain_types(matched: re.Match[str]) -> str:
    return " or ".join(_PLAIN_TYPES.get(name, name) for name in matched[1].split(" | "))


def _field_names(type: Any) -> set[str]:
    """The names of all fields of the type and of the types inside it, as they are encoded."""
    names: set[str] = set()
    waiting, known = [msgspec.inspect.type_info(type)], set()
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.UnionType):
            waiting.extend(info.types)
        elif isinstance(info, msgspec.inspect.StructType) and info.cls not in known:
            known.add(info.cls)
            names.update(field.encode_name for field in info.fields)
            waiting.extend(field.type for field in info.fields)
        elif isinstance(info, msgspec.inspect.Metadata | msgspec.inspect.ListType):
            waiting.append(info.type if isinstance(info, msgspec.inspect.Metadata) else info.item_type)
    return names
