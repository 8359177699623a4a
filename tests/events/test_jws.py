import json
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import pytest

from restante.events import event_keys, jws
from restante.events.event_keys import SealedEventKey
from restante.events.jws import ALGORITHMS, Signature
from tests.events.publishers import MASTER, OpenBankingReader

NAMES = [f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan")]


@pytest.fixture(scope="module", params=ALGORITHMS)
def made(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], bytes]:
    """An algorithm, a public key and its private key."""
    key = event_keys.make(MASTER, request.param)
    private = event_keys.opened(MASTER, SealedEventKey(key.kid, key.alg, key.sealed_key))
    return key.alg, json.loads(key.public_jwk), private


def test_tokens_of_every_algorithm_are_verified_by_another_library(made: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = made
    header = jws.open_banking_header(Signature(alg, public["kid"], 1_800_000_000), "bank-org", "openbanking.org.uk")
    token = jws.token(header, b'{"iss":"x"}', jws.sign_with(alg, private))
    read = OpenBankingReader().decode_complete(token, jwt.PyJWK(public).key, algorithms=[alg])
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


def test_who_does_not_know_the_critical_headers_refuses(made: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = made
    header = jws.open_banking_header(Signature(alg, public["kid"], 1), "i", "t")
    token = jws.token(header, b"{}", jws.sign_with(alg, private))
    with pytest.raises(jwt.InvalidTokenError, match="critical"):
        jwt.decode(token, jwt.PyJWK(public).key, algorithms=[alg])


def test_a_changed_token_does_not_verify(made: tuple[str, dict[str, Any], bytes]) -> None:
    alg, public, private = made
    token = jws.token(jws.shared_signals_header(Signature(alg, "k", 1)), b'{"a":1}', jws.sign_with(alg, private))
    head, _payload, signature = token.split(".")
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.PyJWS().decode(f"{head}.eyJhIjoyfQ.{signature}", jwt.PyJWK(public).key, algorithms=[alg])


def test_a_shared_signal_has_its_own_type_and_nothing_critical() -> None:
    header = jws.shared_signals_header(Signature("RS256", "k", 1))
    read = json.loads(urlsafe_b64decode(header + b"=="))
    assert read == {"alg": "RS256", "kid": "k", "typ": "secevent+jwt"}


def test_a_key_must_fit_its_algorithm(made: tuple[str, dict[str, Any], bytes]) -> None:
    alg, _public, private = made
    other = "EdDSA" if alg != "EdDSA" else "ES256"
    with pytest.raises(ValueError, match="does not fit"):
        jws.sign_with(other, private)
