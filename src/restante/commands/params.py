"""Which parameters a command may carry: those that every collector, in any language, signs to the same bytes.

JSON lets two programs read one text differently: a key that is there twice, a float, an integer that does not fit a
double, half of a surrogate pair. A command with such parameters is refused when it is made, so that it can never be
signed. Knows nothing of what the parameters mean: that is `command_types`.
"""

import json
from typing import Any

from restante.core.canonical import canonical
from restante.core.errors import BadInput

DEPTH_MAX = 16
BYTES_MAX = 16 * 1024
INTEGER_MAX = 2**53
_INTEGER_CHARACTERS_MAX = len(str(-INTEGER_MAX))


class _Refused(ValueError):
    """What the text has that cannot be signed safely."""


def parse_params(raw: bytes, field: str = "params") -> dict[str, Any]:
    """The parameters that a JSON text stands for, or BadInput saying why they cannot be signed."""
    try:
        params = json.loads(
            raw.decode(),
            object_pairs_hook=_without_duplicates,
            parse_int=_safe_integer,
            parse_float=_no_float,
            parse_constant=_no_constant,
        )
    except _Refused as refused:
        raise BadInput(field, str(refused)) from None
    except (ValueError, RecursionError):
        raise BadInput(field, "a JSON object") from None
    if not isinstance(params, dict):
        raise BadInput(field, "a JSON object")
    if _depth(params) > DEPTH_MAX:
        raise BadInput(field, f"at most {DEPTH_MAX} levels")
    if len(_encoded(params, field)) > BYTES_MAX:
        raise BadInput(field, f"at most {BYTES_MAX} bytes of JSON")
    return params


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("every key once in its object")
    return found


def _safe_integer(text: str) -> int:
    # The length first: turning a million digits into a number takes long.
    if len(text) > _INTEGER_CHARACTERS_MAX or abs(int(text)) > INTEGER_MAX:
        raise _Refused("integers from -2^53 to 2^53; send a larger one as a string")
    return int(text)


def _no_float(_text: str) -> Any:
    raise _Refused("no floating-point numbers; send a decimal string")


def _no_constant(_text: str) -> Any:
    raise _Refused("neither NaN nor an infinity")


def _depth(value: Any) -> int:
    """How many objects and lists stand in each other. A list of work, not recursion: the text may be hostile."""
    deepest = 0
    pending = [(value, 1)]
    while pending:
        each, depth = pending.pop()
        if isinstance(each, dict | list):
            deepest = max(deepest, depth)
            pending += [(inner, depth + 1) for inner in (each.values() if isinstance(each, dict) else each)]
    return deepest


def _encoded(params: dict[str, Any], field: str) -> bytes:
    try:
        return canonical(params)
    except UnicodeEncodeError:
        raise BadInput(field, "no lone surrogates") from None
