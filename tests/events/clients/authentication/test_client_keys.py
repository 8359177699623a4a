import json
from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.events.clients.authentication import client_keys
from tests.events.client_keys import jwk, jwks, private_jwk


def test_unneeded_members_are_removed() -> None:
    kept = json.loads(client_keys.check_jwks({"keys": [jwk("ec-1", key_ops=["verify"], x5t="x", use="sig")]}))
    assert set(kept["keys"][0]) == {"kty", "crv", "x", "y", "kid", "use"}


def test_key_is_valid_for_the_algorithms_of_its_type() -> None:
    text = client_keys.check_jwks(jwks("rsa-1", "ec-1", "ed-1"))
    usable = {
        (kid, alg)
        for kid in ("rsa-1", "ec-1", "ed-1")
        for alg in (*client_keys.ALGORITHMS, "HS256", "none")
        if client_keys.find_keys(text, kid, alg)
    }
    assert usable == {("rsa-1", "PS256"), ("rsa-1", "RS256"), ("ec-1", "ES256"), ("ed-1", "EdDSA")}
    assert client_keys.kids(text) == ["rsa-1", "ec-1", "ed-1"]
    assert client_keys.kids(None) == []


def test_key_with_alg_is_valid_for_that_algorithm_only() -> None:
    text = client_keys.check_jwks({"keys": [jwk("rsa-1", alg="PS256")]})
    assert len(client_keys.find_keys(text, "rsa-1", "PS256")) == 1
    assert client_keys.find_keys(text, "rsa-1", "RS256") == []
    assert client_keys.find_keys(text, "other", "PS256") == []


PRIVATE: dict[str, Any] = {
    "a private RSA key": lambda: private_jwk("rsa-1"),
    "a private EC key": lambda: private_jwk("ec-1"),
    "a private OKP key": lambda: private_jwk("ed-1"),
    "a symmetric key": lambda: {"kty": "oct", "k": "c2VjcmV0", "kid": "a"},
    "one member of a private key": lambda: jwk("rsa-1", q="AQAB"),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_private_and_symmetric_keys_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="public key only") as raised:
        client_keys.check_jwks({"keys": [jwk("ec-2"), PRIVATE[name]()]})
    assert raised.value.field.startswith("jwks.keys[1].")


WRONG_KEYS: dict[str, tuple[Any, str]] = {
    "no object": (lambda: 5, "jwks.keys[0]"),
    "no kind": (lambda: {"kid": "a"}, "jwks.keys[0].kty"),
    "an unknown kind": (lambda: jwk("ec-1", kty="XYZ"), "jwks.keys[0].kty"),
    "a list as kind": (lambda: jwk("ec-1", kty=["EC"]), "jwks.keys[0].kty"),
    "no kid": (lambda: {k: v for k, v in jwk("ec-1").items() if k != "kid"}, "jwks.keys[0].kid"),
    "an empty kid": (lambda: jwk("ec-1", kid=""), "jwks.keys[0].kid"),
    "a long kid": (lambda: jwk("ec-1", kid="a" * 129), "jwks.keys[0].kid"),
    "a kid with a NUL": (lambda: jwk("ec-1", kid="a\0"), "jwks.keys[0].kid"),
    "for encryption": (lambda: jwk("ec-1", use="enc"), "jwks.keys[0].use"),
    "for signing only": (lambda: jwk("ec-1", key_ops=["sign"]), "jwks.keys[0].key_ops"),
    "another kind's algorithm": (lambda: jwk("ec-1", alg="PS256"), "jwks.keys[0].alg"),
    "a symmetric algorithm": (lambda: jwk("rsa-1", alg="HS256"), "jwks.keys[0].alg"),
    "another curve": (lambda: jwk("ec-1", crv="P-384"), "jwks.keys[0].crv"),
    "a key for agreement": (lambda: jwk("ed-1", crv="X25519"), "jwks.keys[0].crv"),
    "too small": (lambda: jwk("small-1"), "jwks.keys[0].n"),
    "not on the curve": (lambda: jwk("ec-1", y=jwk("ec-2")["y"]), "jwks.keys[0]"),
    "no number": (lambda: jwk("rsa-1", n="!"), "jwks.keys[0].n"),
    "a number as text": (lambda: jwk("rsa-1", n=5), "jwks.keys[0]"),
    "a member missing": (lambda: {"kty": "EC", "crv": "P-256", "kid": "a"}, "jwks.keys[0]"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_invalid_key_is_refused_and_named(name: str) -> None:
    make, field = WRONG_KEYS[name]
    with pytest.raises(BadInput) as raised:
        client_keys.check_jwks({"keys": [make()]})
    assert raised.value.field == field


@pytest.mark.parametrize("wrong", [None, 5, [], {}, {"keys": 5}, {"keys": []}, {"keys": [None] * 21}])
def test_invalid_key_set_is_refused(wrong: Any) -> None:
    with pytest.raises(BadInput) as raised:
        client_keys.check_jwks(wrong)
    assert raised.value.field == "jwks.keys"


def test_duplicate_kid_is_refused() -> None:
    with pytest.raises(BadInput, match="a kid of its own"):
        client_keys.check_jwks({"keys": [jwk("ec-1"), jwk("ec-2", kid="ec-1")]})
