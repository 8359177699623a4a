import json
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import pytest

from restante.events.signing import event_keys, jws
from restante.events.signing.event_keys import SealedEventKey
from restante.events.signing.jws import ALGORITHMS, SigningInfo
from tests.events.publish_fixture import MASTER, OpenBankingVerifier

NAMES = [f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan")]


@pytest.fixture(scope="module", params=ALGORITHMS)
def key_pair(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], bytes]:
    """An algorithm, a public key and its private key."""
    key = event_keys.generate(MASTER, request.param)
    private = event_keys.open_private_key(MASTER, SealedEventKey(key.kid, key.alg, key.sealed_key))
    return key.alg, json.loads(key.public_jwk), private


def test_token_of_every_algorithm_is_verified_by_another_library(key_pair: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = key_pair
    header = jws.open_banking_header(SigningInfo(alg, public["kid"], 1_800_000_000), "bank-org", "openbanking.org.uk")
    token = jws.compact_token(header, b'{"iss":"x"}', jws.signing_function(alg, private))
    read = OpenBankingVerifier().decode_complete(token, jwt.PyJWK(public).key, algorithms=[alg])
    assert read["payload"] == b'{"iss":"x"}'
    assert read["header"] == {
        "alg": alg,
        "kid": public["kid"],
        "typ": "JOSE",
        NAMES[0]: 1_800_000_000,
        NAMES[1]: "bank-org",
        NAMES[2]: "openbanking.org.uk",
        "crit": NAMES,
    }
    assert "=" not in token
    assert jws.payload_of(token) == b'{"iss":"x"}'


def test_verifier_without_the_critical_headers_refuses(key_pair: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = key_pair
    header = jws.open_banking_header(SigningInfo(alg, public["kid"], 1), "i", "t")
    token = jws.compact_token(header, b"{}", jws.signing_function(alg, private))
    with pytest.raises(jwt.InvalidTokenError, match="critical"):
        jwt.decode(token, jwt.PyJWK(public).key, algorithms=[alg])


def test_changed_token_does_not_verify(key_pair: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = key_pair
    token = jws.compact_token(
        jws.shared_signals_header(SigningInfo(alg, "k", 1)), b'{"a":1}', jws.signing_function(alg, private)
    )
    head, _payload, signature = token.split(".")
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.PyJWS().decode(f"{head}.eyJhIjoyfQ.{signature}", jwt.PyJWK(public).key, algorithms=[alg])


def test_shared_signals_header_has_its_own_typ_and_no_crit() -> None:
    header = jws.shared_signals_header(SigningInfo("RS256", "k", 1))
    read = json.loads(urlsafe_b64decode(header + b"=="))
    assert read == {"alg": "RS256", "kid": "k", "typ": "secevent+jwt"}


def test_key_of_another_algorithm_is_refused(key_pair: tuple[str, dict[str, Any], bytes]) -> None:
    alg, _public, private = key_pair
    other = "EdDSA" if alg != "EdDSA" else "ES256"
    with pytest.raises(ValueError, match="does not fit"):
        jws.signing_function(other, private)
