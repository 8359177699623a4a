import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.commands.lifecycle.params import BYTES_MAX, parse_params
from restante.core.errors import BadInput

NO_FLOAT = "no floating-point numbers; send a decimal string"
NO_CONSTANT = "neither NaN nor an infinity"
NO_GIANT = "integers from -2^53 to 2^53; send a larger one as a string"
NO_DUPLICATE = "every key once in its object"


def nested(levels: int) -> bytes:
    """Lists in an object, with this many levels in all."""
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def padded(size: int) -> bytes:
    """Parameters of this many bytes."""
    return json.dumps({"a": "x" * (size - len('{"a":""}'))}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("raw", "params"),
    [
        (b"{}", {}),
        (b' {"reason" : "r", "n": null, "deep": {"a": [1, true, "\\u00e9"]}} ', None),
        (b'{"a": 9007199254740992, "b": -9007199254740992}', {"a": 2**53, "b": -(2**53)}),
        ('{"ä": "\N{GRINNING FACE}"}'.encode(), {"ä": "\N{GRINNING FACE}"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
        (nested(16), None),
        (padded(BYTES_MAX), None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_params_that_can_be_signed_are_accepted(raw: bytes, params: dict[str, Any] | None) -> None:
    assert parse_params(raw) == (json.loads(raw) if params is None else params)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a": NaN}', NO_CONSTANT),
        (b'{"a": Infinity}', NO_CONSTANT),
        (b'{"a": [-Infinity]}', NO_CONSTANT),
        (b'{"a": 1.5}', NO_FLOAT),
        (b'{"a": 1.0}', NO_FLOAT),
        (b'{"a": 1e3}', NO_FLOAT),
        (b'{"a": 1e999}', NO_FLOAT),
        (b'{"a": 9007199254740993}', NO_GIANT),
        (b'{"a": -9007199254740993}', NO_GIANT),
        (b'{"a": ' + b"9" * 100_000 + b"}", NO_GIANT),
        (b'{"a": "\\ud800"}', "no lone surrogates"),
        (b'{"\\udfff": 1}', "no lone surrogates"),
        (b'{"a": 1, "a": 1}', NO_DUPLICATE),
        (b'{"b": [{"a": 1, "\\u0061": 2}]}', NO_DUPLICATE),
        (nested(17), "at most 16 levels"),
        (nested(100_000), "a JSON object"),
        (padded(BYTES_MAX + 1), "at most 16384 bytes of JSON"),
        (b"[]", "a JSON object"),
        (b"null", "a JSON object"),
        (b'"text"', "a JSON object"),
        (b"", "a JSON object"),
        (b'{"a": "\xff"}', "a JSON object"),
        (b'{"a": 1} x', "a JSON object"),
        ('{"a": 1}'.encode("utf-16"), "a JSON object"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_params_that_cannot_be_signed_are_refused(raw: bytes, expected: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_params(raw, "commands[3].params")
    assert (refused.value.field, refused.value.expected) == ("commands[3].params", expected)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_input_is_accepted_or_refused(raw: bytes) -> None:
    try:
        assert parse_params(raw) == json.loads(raw)
    except BadInput:
        return
