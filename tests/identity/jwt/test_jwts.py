import time
from typing import Any

import jwt
import msgspec
import pytest
from joserfc.jwk import import_key

from restante.core.errors import NotAuthenticated
from restante.identity.jwt.issuers import ExternalIssuer
from restante.identity.jwt.jwts import (
    TOKEN_LENGTH_MAX,
    allowed_algorithms,
    check_audience,
    check_signature,
    check_times,
    parse_token,
)
from tests.events.client_keys import jwk, private_key


class Claims(msgspec.Struct):
    sub: str


def token(alg: str = "ES256", key: str = "ec-1", **header: Any) -> bytes:
    return jwt.encode({"sub": "a"}, private_key(key), alg, headers=header).encode()


def key(name: str = "ec-1") -> Any:
    return import_key(jwk(name))


def test_token_is_parsed_and_its_signature_checked() -> None:
    signed, claims = parse_token(token(kid="x"), Claims)
    assert (claims.sub, signed.headers()["kid"]) == ("a", "x")
    check_signature(signed, key(), allowed_algorithms(("ES256",)))


@pytest.mark.parametrize("raw", [b"", b"a.b", b"a.b.c", b"\xff.\xff.\xff", b"a" * (TOKEN_LENGTH_MAX + 1)])
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        parse_token(raw, Claims)


def test_critical_extension_is_refused() -> None:
    with pytest.raises(NotAuthenticated, match="critical extension"):
        parse_token(token(crit=["x"], x=1), Claims)


def test_other_algorithm_or_key_is_refused() -> None:
    signed, _ = parse_token(token("PS256", "rsa-1"), Claims)
    check_signature(signed, key("rsa-1"), allowed_algorithms(("PS256",)))
    for wrong_key, algorithms in ((key("rsa-1"), ("RS256",)), (key("rsa-2"), ("PS256",)), (key("ec-1"), ("PS256",))):
        with pytest.raises(NotAuthenticated, match="signature"):
            check_signature(signed, wrong_key, allowed_algorithms(algorithms))
    with pytest.raises(NotAuthenticated, match="key is not known"):
        check_signature(signed, None, allowed_algorithms(("PS256",)))


def test_other_audience_is_refused() -> None:
    issuer = ExternalIssuer("https://as.example", "x.json", "us", ("ES256",))
    for good in ("us", ["us", "them"]):
        check_audience(issuer, good)
    for wrong in (None, "them", [], ["them"]):
        with pytest.raises(NotAuthenticated, match="audience"):
            check_audience(issuer, wrong)


def test_expired_or_future_token_is_refused() -> None:
    now = time.time()
    check_times(now + 1, now + 59, now)
    with pytest.raises(NotAuthenticated, match="expired"):
        check_times(now, None, now)
    with pytest.raises(NotAuthenticated, match="not valid yet"):
        check_times(now + 100, now + 61, now)
