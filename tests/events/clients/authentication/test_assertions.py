import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest

from restante.database.database import Database
from restante.database.queries import Query
from restante.events.clients import clients
from restante.events.clients.authentication import assertions, client_keys
from restante.events.clients.authentication.assertions import AssertionRules, VerifiedAssertion
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.events.clients.clients import ClientRegistration
from tests.conftest import START_MS, ManualClock
from tests.events.client_keys import assertion, jwk, jwks, private_key, public_pem

AUDIENCE = "https://bank.example/token"
KEYS = client_keys.check_jwks(jwks("ec-1", "rsa-1", "rsa-2", "ed-1"))
SECONDS_MAX = 300
RULES = AssertionRules(frozenset([AUDIENCE, "https://bank.example"]), client_keys.ALGORITHMS, SECONDS_MAX)

_COUNT = Query("count", "SELECT count(*) AS n FROM client_assertions")


def verify(text: str, now: float | None = None) -> VerifiedAssertion:
    return assertions.verify(text, KEYS, "tpp", RULES, now or time.time())


@pytest.mark.parametrize(("key", "alg"), [("ec-1", "ES256"), ("rsa-1", "PS256"), ("rsa-1", "RS256"), ("ed-1", "EdDSA")])
def test_assertion_of_each_algorithm_is_verified(key: str, alg: str) -> None:
    found = verify(assertion("tpp", AUDIENCE, key, alg, jti="one"))
    assert found.jti == "one"
    assert assertions.unverified_client_id(assertion("tpp", AUDIENCE, key, alg)) == "tpp"


@pytest.mark.parametrize(("key", "alg"), [("ec-1", "ES256"), ("rsa-2", "PS256"), ("rsa-2", "RS256"), ("ed-1", "EdDSA")])
def test_assertion_without_kid_is_verified_with_the_keys_that_fit(key: str, alg: str) -> None:
    """As authlib and others send it. `rsa-1` comes first and fits the algorithm, too."""
    assert verify(assertion("tpp", AUDIENCE, key, alg, names_key=False, jti="one")).jti == "one"


def test_key_registered_for_one_algorithm_does_not_verify_another_without_kid() -> None:
    keys = client_keys.check_jwks({"keys": [jwk("rsa-1", alg="PS256")]})
    signed = assertion("tpp", AUDIENCE, "rsa-1", "RS256", names_key=False)
    with pytest.raises(InvalidClient):
        assertions.verify(signed, keys, "tpp", RULES, time.time())


@pytest.mark.parametrize("audience", ["https://bank.example", [AUDIENCE, "https://elsewhere.example"]])
def test_audience_may_be_the_issuer_or_one_of_several(audience: Any) -> None:
    verify(assertion("tpp", audience))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"iss": "other"}, "iss and sub"),
        ({"sub": "other"}, "iss and sub"),
        ({"aud": "https://elsewhere.example/token"}, "aud"),
        ({"aud": []}, "aud"),
        ({"exp": None}, "claims"),
        ({"jti": None}, "claims"),
        ({"iss": None}, "claims"),
        ({"sub": None}, "claims"),
        ({"aud": None}, "claims"),
        ({"jti": ""}, "jti"),
        ({"jti": "a" * 257}, "jti"),
        ({"exp": "soon"}, "claims"),
    ],
)
def test_signed_assertion_with_invalid_claims_names_the_problem(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidClient, match=message):
        verify(assertion("tpp", AUDIENCE, **changed))


SKEW = assertions.SKEW_SECONDS


@pytest.mark.parametrize(
    ("claims", "is_valid"),
    [
        ({"exp": -SKEW + 1}, True),
        ({"exp": -SKEW}, False),
        ({"exp": SECONDS_MAX + SKEW}, True),
        ({"exp": SECONDS_MAX + SKEW + 1}, False),
        ({"nbf": SKEW}, True),
        ({"nbf": SKEW + 1}, False),
        ({"iat": SKEW}, True),
        ({"iat": SKEW + 1}, False),
        ({"iat": None}, True),
    ],
)
def test_time_claims_are_accepted_within_their_bounds(claims: dict[str, int | None], is_valid: bool) -> None:
    now = 1_800_000_000
    times: dict[str, Any] = {name: None if at is None else now + at for name, at in claims.items()}
    text = assertion("tpp", AUDIENCE, **{"iat": now, "exp": now + 60, **times})
    if is_valid:
        verify(text, now)
    else:
        with pytest.raises(InvalidClient):
            verify(text, now)


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def forge(alg: str, key: bytes, kid: str) -> str:
    """Sign with the public key as if it were a secret."""
    claims = {"iss": "tpp", "sub": "tpp", "aud": AUDIENCE, "exp": int(time.time()) + 60, "jti": "x"}
    signed = f"{encode({'alg': alg, 'kid': kid})}.{encode(claims)}"
    mac = hmac.new(key, signed.encode(), hashlib.sha256).digest() if key else b""
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


ATTACKS: dict[str, Any] = {
    "no signature at all": lambda: forge("none", b"", "rsa-1"),
    "the public key as a secret": lambda: forge("HS256", public_pem("rsa-1"), "rsa-1"),
    "the public key as a secret, labelled RS256": lambda: forge("RS256", public_pem("rsa-1"), "rsa-1"),
    "another client's key": lambda: assertion("tpp", AUDIENCE, "ec-2", kid="ec-1"),
    "a key that is not registered": lambda: assertion("tpp", AUDIENCE, "ec-2"),
    "no key named, another client's key": lambda: assertion("tpp", AUDIENCE, "ec-2", names_key=False),
    "no key named, an algorithm without a key": lambda: jwt.encode({"sub": "tpp"}, private_key("rsa-1"), "RS512"),
    "a key named by a number": lambda: _with_header({"alg": "ES256", "kid": 1}),
    "a key named null": lambda: _with_header({"alg": "ES256", "kid": None}),
    "no algorithm named": lambda: _with_header({}),
    "another algorithm of the key's type": lambda: jwt.encode(
        {"sub": "tpp"}, private_key("rsa-1"), "PS512", headers={"kid": "rsa-1"}
    ),
    "a critical header": lambda: jwt.encode(
        {"sub": "tpp"}, private_key("ec-1"), "ES256", headers={"kid": "ec-1", "crit": ["x"], "x": 1}
    ),
    "a changed claim": lambda: _with_other_claims(assertion("tpp", AUDIENCE)),
    "two parts": lambda: "a.b",
    "nothing": lambda: "",
    "not ASCII": lambda: "é.é.é",
    "a surrogate": lambda: "\ud800.a.b",
    "too long": lambda: assertion("tpp", AUDIENCE, more="a" * 9000),
}


def _with_header(header: dict[str, Any]) -> str:
    _, claims, signature = assertion("tpp", AUDIENCE).split(".")
    return f"{encode(header)}.{claims}.{signature}"


def _with_other_claims(text: str) -> str:
    header, _, signature = text.split(".")
    claims = {"iss": "tpp", "sub": "tpp", "aud": AUDIENCE, "exp": int(time.time()) + 60, "jti": "changed"}
    return f"{header}.{encode(claims)}.{signature}"


@pytest.mark.parametrize("name", ATTACKS)
def test_invalid_signature_gets_no_details(name: str) -> None:
    with pytest.raises(InvalidClient) as raised:
        verify(ATTACKS[name]())
    assert raised.value.message == "client authentication failed"


@pytest.mark.parametrize("text", ["", "a.b.c", f"{encode({'alg': 'ES256'})}.{encode([])}.x", "a" * 9000])
def test_assertion_without_a_client_is_refused(text: str) -> None:
    with pytest.raises(InvalidClient):
        assertions.unverified_client_id(text)


def test_assertion_is_consumed_once_and_deleted_after_it_expires(database: Database, clock: ManualClock) -> None:
    for client_id in ("a", "b"):
        database.write_now(clients.add, ClientRegistration("n", "client_secret_basic", client_id))
    one, other = (database.read_now(clients.get, client_id).id for client_id in ("a", "b"))
    used = VerifiedAssertion("jti", START_MS / 1000 + 60)
    assert database.write_now(assertions.consume, one, used)
    assert not database.write_now(assertions.consume, one, used)
    assert database.write_now(assertions.consume, other, used), "jtis of two clients are independent"
    clock.advance(60 + SKEW)
    assert not database.write_now(assertions.consume, one, used)
    clock.advance(assertions.KEEP_LONGER_SECONDS)
    # Consuming an assertion deletes the expired ones of the client, without a sweep.
    assert database.write_now(assertions.consume, one, VerifiedAssertion("new", START_MS / 1000 + 3600))
    assert count_rows(database) == 2
    assert database.write_now(assertions.forget_expired) == 1
    assert count_rows(database) == 1


def count_rows(database: Database) -> int:
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    return int(row["n"])
