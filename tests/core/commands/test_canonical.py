import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.commands.lifecycle.params import parse_params
from restante.core.commands.canonical import (
    SIGNED_FIELDS,
    canonical_json,
    reference_json,
    signature_matches,
    signature_of,
    signed_fields,
)

SECRET = "ab" * 32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(texts, values, max_size=6))
def test_params_are_encoded_as_the_contract_defines(params: dict[str, Any]) -> None:
    accepted = parse_params(reference_json(params))
    assert accepted == params
    assert canonical_json(accepted) == reference_json(accepted)


def test_keys_beyond_the_basic_plane_are_ordered_by_code_point() -> None:
    params = {"\U0001f525": 1, "\uffee": 2, "a": 3, "Z": 4, "": 5}
    assert canonical_json(params) == reference_json(params)
    assert canonical_json(params).startswith(b'{"":5,"Z":4,"a":3,"\xef\xbf\xae":2')


def test_only_required_characters_are_escaped() -> None:
    text = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é'
    assert canonical_json(text) == reference_json(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, b"0.1"), (65.0, b"65.0"), (-0.0, b"-0.0"), (1e-07, b"1e-07"), (1e16, b"1e+16"), (1.5e300, b"1.5e+300")],
)
def test_reference_form_of_a_float_is_that_of_the_contract(value: float, text: bytes) -> None:
    assert reference_json({"b": [value], "a": 1}) == b'{"a":1,"b":[' + text + b"]}"


def test_exactly_eleven_fields_are_signed() -> None:
    assert len(SIGNED_FIELDS) == len(set(SIGNED_FIELDS)) == 11
    command = dict.fromkeys([*SIGNED_FIELDS, "attempt", "lease_until", "signature"], 1)
    assert tuple(signed_fields(command)) == SIGNED_FIELDS


def test_hmac_key_is_the_text_of_the_secret() -> None:
    expected = hmac.new(SECRET.encode(), b"{}", hashlib.sha256).hexdigest()
    assert signature_of(SECRET, b"{}") == expected
    assert signature_of(SECRET, b"{}") != hmac.new(bytes.fromhex(SECRET), b"{}", hashlib.sha256).hexdigest()


def test_only_the_exact_signature_matches() -> None:
    good = signature_of(SECRET, b"{}")
    assert signature_matches(good, SECRET, b"{}")
    assert not signature_matches(good.upper(), SECRET, b"{}")
    assert not signature_matches(good[:-1], SECRET, b"{}")
    assert not signature_matches("\ud800", SECRET, b"{}")
    assert not signature_matches(good, "cd" * 32, b"{}")
