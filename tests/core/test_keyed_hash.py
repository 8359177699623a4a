import hmac

from hypothesis import given
from hypothesis import strategies as st

from restante.core.keyed_hash import KeyedHash


@given(st.binary(max_size=200), st.lists(st.binary(max_size=300), min_size=1, max_size=3))
def test_digest_equals_hmac_of_the_standard_library(key: bytes, messages: list[bytes]) -> None:
    keyed = KeyedHash(key)
    assert [keyed.digest(message) for message in messages] == [
        hmac.digest(key, message, "sha256") for message in messages
    ]
