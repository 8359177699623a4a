import hashlib
import hmac
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from restante.commands.params import parse_params
from restante.core.canonical import (
    SIGNED_FIELDS,
    canonical,
    is_signature,
    reference,
    signature_of,
    signed_part,
)

SECRET = "ab" * 32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(texts, values, max_size=6))
def test_everything_a_command_may_carry_is_written_as_the_contract_writes_it(params: dict[str, Any]) -> None:
    accepted = parse_params(reference(params))
    assert accepted == params
    assert canonical(accepted) == reference(accepted)


def test_keys_are_ordered_by_code_point_beyond_the_basic_plane() -> None:
    params = {"\U0001f525": 1, "\uffee": 2, "a": 3, "Z": 4, "": 5}
    assert canonical(params) == reference(params)
    assert canonical(params).startswith(b'{"":5,"Z":4,"a":3,"\xef\xbf\xae":2')


def test_only_what_must_be_is_escaped() -> None:
    text = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é'
    assert canonical(text) == reference(text)


def test_exactly_eleven_fields_are_signed() -> None:
    assert len(SIGNED_FIELDS) == len(set(SIGNED_FIELDS)) == 11
    command = dict.fromkeys([*SIGNED_FIELDS, "attempt", "lease_until", "signature"], 1)
    assert tuple(signed_part(command)) == SIGNED_FIELDS


def test_the_key_is_the_text_of_the_secret() -> None:
    expected = hmac.new(SECRET.encode(), b"{}", hashlib.sha256).hexdigest()
    assert signature_of(SECRET, b"{}") == expected
    assert signature_of(SECRET, b"{}") != hmac.new(bytes.fromhex(SECRET), b"{}", hashlib.sha256).hexdigest()


def test_only_the_signature_itself_is_one() -> None:
    good = signature_of(SECRET, b"{}")
    assert is_signature(good, SECRET, b"{}")
    assert not is_signature(good.upper(), SECRET, b"{}")
    assert not is_signature(good[:-1], SECRET, b"{}")
    assert not is_signature("\ud800", SECRET, b"{}")
    assert not is_signature(good, "cd" * 32, b"{}")
