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
from restante.events import assertions, client_keys, clients
from restante.events.assertions import Assertion
from restante.events.clients import Registration
from restante.events.oauth_wire import InvalidClient
from tests.conftest import START_MS, ManualClock
from tests.events.keys import assertion, jwks, private_key, public_pem

AUDIENCE = "https://bank.example/token"
KEYS = client_keys.checked(jwks("ec-1", "rsa-1", "ed-1"))
SECONDS_MAX = 300

_COUNT = Query("count", "SELECT count(*) AS n FROM client_assertions")


def verified(text: str, now: float | None = None) -> Assertion:
    audiences = frozenset([AUDIENCE, "https://bank.example"])
    return assertions.verify(text, KEYS, "tpp", audiences, now or time.time(), SECONDS_MAX)


@pytest.mark.parametrize(("key", "alg"), [("ec-1", "ES256"), ("rsa-1", "PS256"), ("rsa-1", "RS256"), ("ed-1", "EdDSA")])
def test_each_algorithm(key: str, alg: str) -> None:
    found = verified(assertion("tpp", AUDIENCE, key, alg, jti="one"))
    assert found.jti == "one"
    assert assertions.claimed_client_id(assertion("tpp", AUDIENCE, key, alg)) == "tpp"


@pytest.mark.parametrize("audience", ["https://bank.example", [AUDIENCE, "https://elsewhere.example"]])
def test_it_may_be_addressed_to_the_issuer_and_to_others_too(audience: Any) -> None:
    verified(assertion("tpp", audience))


@pytest.mark.parametrize(
    ("changed", "told"),
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
def test_what_is_wrong_is_told_to_who_could_sign(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidClient, match=told):
        verified(assertion("tpp", AUDIENCE, **changed))


SKEW = assertions.SKEW_SECONDS


@pytest.mark.parametrize(
    ("claims", "is_good"),
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
def test_the_bounds_of_time(claims: dict[str, int | None], is_good: bool) -> None:
    now = 1_800_000_000
    moments: dict[str, Any] = {name: None if at is None else now + at for name, at in claims.items()}
    text = assertion("tpp", AUDIENCE, **{"iat": now, "exp": now + 60, **moments})
    if is_good:
        verified(text, now)
    else:
        with pytest.raises(InvalidClient):
            verified(text, now)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def forged(alg: str, key: bytes, kid: str) -> str:
    """Signed with the public key as if it were a secret."""
    claims = {"iss": "tpp", "sub": "tpp", "aud": AUDIENCE, "exp": int(time.time()) + 60, "jti": "x"}
    signed = f"{encoded({'alg': alg, 'kid': kid})}.{encoded(claims)}"
    mac = hmac.new(key, signed.encode(), hashlib.sha256).digest() if key else b""
    return f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


ATTACKS: dict[str, Any] = {
    "no signature at all": lambda: forged("none", b"", "rsa-1"),
    "the public key as a secret": lambda: forged("HS256", public_pem("rsa-1"), "rsa-1"),
    "the public key as a secret, said to be RSA": lambda: forged("RS256", public_pem("rsa-1"), "rsa-1"),
    "another client's key": lambda: assertion("tpp", AUDIENCE, "ec-2", kid="ec-1"),
    "a key that is not registered": lambda: assertion("tpp", AUDIENCE, "ec-2"),
    "no key named": lambda: jwt.encode({"sub": "tpp"}, private_key("ec-1"), "ES256"),
    "another algorithm of the key's kind": lambda: jwt.encode(
        {"sub": "tpp"}, private_key("rsa-1"), "PS512", headers={"kid": "rsa-1"}
    ),
    "something critical": lambda: jwt.encode(
        {"sub": "tpp"}, private_key("ec-1"), "ES256", headers={"kid": "ec-1", "crit": ["x"], "x": 1}
    ),
    "a changed claim": lambda: _with_other_claims(assertion("tpp", AUDIENCE)),
    "two parts": lambda: "a.b",
    "nothing": lambda: "",
    "not ASCII": lambda: "é.é.é",
    "a surrogate": lambda: "\ud800.a.b",
    "too long": lambda: assertion("tpp", AUDIENCE, more="a" * 9000),
}


def _with_other_claims(text: str) -> str:
    header, _, signature = text.split(".")
    claims = {"iss": "tpp", "sub": "tpp", "aud": AUDIENCE, "exp": int(time.time()) + 60, "jti": "changed"}
    return f"{header}.{encoded(claims)}.{signature}"


@pytest.mark.parametrize("name", ATTACKS)
def test_a_signature_that_does_not_hold_is_told_nothing(name: str) -> None:
    with pytest.raises(InvalidClient) as raised:
        verified(ATTACKS[name]())
    assert raised.value.message == "client authentication failed"


@pytest.mark.parametrize("text", ["", "a.b.c", f"{encoded({'alg': 'ES256'})}.{encoded([])}.x", "a" * 9000])
def test_what_names_no_client(text: str) -> None:
    with pytest.raises(InvalidClient):
        assertions.claimed_client_id(text)


def test_each_counts_once_and_is_forgotten_when_it_could_not_count(database: Database, clock: ManualClock) -> None:
    for client_id in ("a", "b"):
        database.write_now(clients.add, Registration("n", "client_secret_basic", client_id))
    one, other = (database.read_now(clients.get, client_id).id for client_id in ("a", "b"))
    used = Assertion("jti", START_MS / 1000 + 60)
    assert database.write_now(assertions.use, one, used)
    assert not database.write_now(assertions.use, one, used)
    assert database.write_now(assertions.use, other, used), "another client's is another"
    clock.advance(60 + SKEW)
    assert not database.write_now(assertions.use, one, used)
    clock.advance(assertions.KEEP_LONGER_SECONDS)
    # Without any sweep: using one forgets the client's own old ones.
    assert database.write_now(assertions.use, one, Assertion("new", START_MS / 1000 + 3600))
    assert rows(database) == 2
    assert database.write_now(assertions.forget_expired) == 1
    assert rows(database) == 1


def rows(database: Database) -> int:
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    return int(row["n"])
