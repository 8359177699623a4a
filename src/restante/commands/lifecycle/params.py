"""Parsing of command parameters. It accepts only JSON that every collector, in any language, encodes to the same bytes.

Two programs may read one JSON text differently: a duplicate key, a float, an integer that does not fit a double, half
of a surrogate pair. A command with such parameters is refused on creation, so it is never signed. This module does not
know what the parameters mean: see `command_types`.
"""

import json
from typing import Any

from restante.core.commands.canonical import canonical_json
from restante.core.errors import BadInput

DEPTH_MAX = 16
BYTES_MAX = 16 * 1024
INTEGER_MAX = 2**53
_INTEGER_CHARACTERS_MAX = len(str(-INTEGER_MAX))


class _UnsafeJson(ValueError):
    """The text contains JSON that cannot be signed safely."""


def parse_params(raw: bytes, field: str = "params") -> dict[str, Any]:
    """Parse the parameters; raise BadInput if they cannot be signed."""
    try:
        params = json.loads(
            raw.decode(),
            object_pairs_hook=_unique_keys,
            parse_int=_safe_integer,
            parse_float=_no_float,
            parse_constant=_no_constant,
        )
    except _UnsafeJson as unsafe:
        raise BadInput(field, str(unsafe)) from None
    except (ValueError, RecursionError):
        raise BadInput(field, "a JSON object") from None
    if not isinstance(params, dict):
        raise BadInput(field, "a JSON object")
    if _depth(params) > DEPTH_MAX:
        raise BadInput(field, f"at most {DEPTH_MAX} levels")
    if len(_encode(params, field)) > BYTES_MAX:
        raise BadInput(field, f"at most {BYTES_MAX} bytes of JSON")
    return params


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _UnsafeJson("every key once in its object")
    return found


def _safe_integer(text: str) -> int:
    # The length is checked first, because converting a million digits takes long.
    if len(text) > _INTEGER_CHARACTERS_MAX or abs(int(text)) > INTEGER_MAX:
        raise _UnsafeJson("integers from -2^53 to 2^53; send a larger one as a string")
    return int(text)


def _no_float(_text: str) -> Any:
    raise _UnsafeJson("no floating-point numbers; send a decimal string")


def _no_constant(_text: str) -> Any:
    raise _UnsafeJson("neither NaN nor an infinity")


def _depth(value: Any) -> int:
    """The nesting depth. Uses a work list instead of recursion, because the text may be hostile."""
    deepest = 0
    pending = [(value, 1)]
    while pending:
        each, depth = pending.pop()
        if isinstance(each, dict | list):
            deepest = max(deepest, depth)
            pending += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
    return deepest


def _encode(params: dict[str, Any], field: str) -> bytes:
    try:
        return canonical_json(params)
    except UnicodeEncodeError:
        raise BadInput(field, "no lone surrogates") from None
