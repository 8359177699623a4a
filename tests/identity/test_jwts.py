import time
from typing import Any

import jwt
import msgspec
import pytest
from joserfc.jwk import import_key

from restante.core.errors import NotAuthenticated
from restante.identity.issuers import OutsideIssuer
from restante.identity.jwts import TOKEN_LENGTH_MAX, allowing, check_audience, check_signature, check_times, taken_apart
from tests.events.keys import jwk, private_key


class Claims(msgspec.Struct):
    sub: str


def token(alg: str = "ES256", key: str = "ec-1", **header: Any) -> bytes:
    return jwt.encode({"sub": "a"}, private_key(key), alg, headers=header).encode()


def key(name: str = "ec-1") -> Any:
    return import_key(jwk(name))


def test_a_token_is_taken_apart_and_its_signature_checked() -> None:
    signed, claims = taken_apart(token(kid="x"), Claims)
    assert (claims.sub, signed.headers()["kid"]) == ("a", "x")
    check_signature(signed, key(), allowing(("ES256",)))


@pytest.mark.parametrize("raw", [b"", b"a.b", b"a.b.c", b"\xff.\xff.\xff", b"a" * (TOKEN_LENGTH_MAX + 1)])
def test_what_is_no_token(raw: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        taken_apart(raw, Claims)


def test_something_critical_is_not_passed_over() -> None:
    with pytest.raises(NotAuthenticated, match="asks for something"):
        taken_apart(token(crit=["x"], x=1), Claims)


def test_only_what_is_allowed() -> None:
    signed, _ = taken_apart(token("PS256", "rsa-1"), Claims)
    check_signature(signed, key("rsa-1"), allowing(("PS256",)))
    for wrong_key, algorithms in ((key("rsa-1"), ("RS256",)), (key("rsa-2"), ("PS256",)), (key("ec-1"), ("PS256",))):
        with pytest.raises(NotAuthenticated, match="signature"):
            check_signature(signed, wrong_key, allowing(algorithms))
    with pytest.raises(NotAuthenticated, match="key is not known"):
        check_signature(signed, None, allowing(("PS256",)))


def test_audiences() -> None:
    issuer = OutsideIssuer("https://as.example", "x.json", "us", ("ES256",))
    for good in ("us", ["us", "them"]):
        check_audience(issuer, good)
    for wrong in (None, "them", [], ["them"]):
        with pytest.raises(NotAuthenticated, match="audience"):
            check_audience(issuer, wrong)


def test_times() -> None:
    now = time.time()
    check_times(now + 1, now + 59, now)
    with pytest.raises(NotAuthenticated, match="expired"):
        check_times(now, None, now)
    with pytest.raises(NotAuthenticated, match="not valid yet"):
        check_times(now + 100, now + 61, now)
