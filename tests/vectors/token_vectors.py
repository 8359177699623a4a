"""The vectors of event tokens: a JWKS, tokens that a client accepts, and tokens that it must refuse, with the reason.

Two of the algorithms sign differently each time. So keys and tokens that are published already are kept as long as
their header and claims are those below.
"""

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

NAME = "event-tokens.json"
ISSUER, AUDIENCE = "https://bank.example", "shop"
KEYS = ("rsa", "ec", "ed25519")
TIMES = 1_768_730_000
_NAMESPACE = "http://openbanking.org.uk/"
_EVENT = {
    "urn:uk:org:openbanking:events:resource-update": {
        "subject": {
            "subject_type": f"{_NAMESPACE}rid_{_NAMESPACE}rty",
            f"{_NAMESPACE}rid": "dp-1",
            f"{_NAMESPACE}rty": "domestic-payment",
            f"{_NAMESPACE}rlk": [{"version": "v4.0", "link": "https://bank.example/domestic-payments/dp-1"}],
        }
    }
}
_ALGORITHMS = {"PS256": "rsa", "RS256": "rsa", "ES256": "ec", "EdDSA": "ed25519"}


def build(published: dict[str, Any] | None = None) -> dict[str, Any]:
    keys = published["private_keys_der_b64"] if published else {name: _text_64(_new_key(name)) for name in KEYS}
    private = {name: serialization.load_der_private_key(base64.b64decode(keys[name]), None) for name in KEYS}
    known = {_signed_part(each["token"]): each["token"] for each in published["vectors"]} if published else {}
    if published:
        known |= {_signed_part(each["token"]): each["token"] for each in published["refused"]}

    def token(header: dict[str, Any], claims: dict[str, Any], key: str) -> str:
        message = f"{_text(_json(header))}.{_text(_json(claims))}"
        return known.get(message) or f"{message}.{_text(_sign(header['alg'], private[key], message.encode()))}"

    good = [_good(alg, profile, token) for alg in _ALGORITHMS for profile in ("open-banking", "shared-signals")]
    return {
        "how": "A token is accepted if its signature holds with the key of the JWKS that its `kid` names, its `alg` "
        "fits that key, every name in `crit` is understood, and iss, aud and jti are the expected ones",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": {"keys": [_jwk(name, private[name]) for name in KEYS]},
        "private_keys_der_b64": keys,
        "vectors": good,
        "refused": _refused(token, good[4]["token"]),
    }


def _good(alg: str, profile: str, token: Any) -> dict[str, Any]:
    name = f"{alg}, {profile}"
    header, claims = _header(alg, profile), _claims(f"{alg}-{profile}", profile)
    made = token(header, claims, _ALGORITHMS[alg])
    return {"name": name, "jti": claims["jti"], "alg": alg, "profile": profile, "claims": claims, "token": made}


def _refused(token: Any, other: str) -> list[dict[str, Any]]:
    def case(name: str, err: str, header: dict[str, Any], claims: dict[str, Any], key: str = "ec") -> dict[str, Any]:
        return {"name": name, "err": err, "jti": "refused", "token": token(header, claims, key)}

    header, claims = _header("ES256", "open-banking"), _claims("refused", "open-banking")
    changed = f"{_text(_json(header))}.{_text(_json(claims))}.{other.rpartition('.')[2]}"
    unsigned = f"{_text(_json({'alg': 'none', 'kid': 'ec'}))}.{_text(_json(claims))}."
    return [
        {"name": "the signature of another token", "err": "authentication_failed", "jti": "refused", "token": changed},
        {"name": "no signature", "err": "authentication_failed", "jti": "refused", "token": unsigned},
        {"name": "no token", "err": "invalid_request", "jti": "refused", "token": "nonsense"},
        case("a key that is not in the JWKS", "invalid_key", {**header, "kid": "unknown"}, claims),
        case("a signature of another key", "authentication_failed", {**header, "kid": "rsa"}, claims),
        case("another issuer", "invalid_issuer", header, {**claims, "iss": "https://evil.example"}),
        case("another audience", "invalid_audience", header, {**claims, "aud": "other"}),
        case("another jti", "authentication_failed", header, {**claims, "jti": "other"}),
        case("a critical header that is not known", "authentication_failed", {**header, "crit": ["x"], "x": 1}, claims),
        case("an access token", "authentication_failed", {**header, "typ": "at+jwt"}, claims),
    ]


def _header(alg: str, profile: str) -> dict[str, Any]:
    common = {"alg": alg, "kid": _ALGORITHMS[alg]}
    if profile == "shared-signals":
        return {**common, "typ": "secevent+jwt"}
    named = {f"{_NAMESPACE}iat": TIMES, f"{_NAMESPACE}iss": ISSUER, f"{_NAMESPACE}tan": "bank.example"}
    return {**common, "typ": "JOSE", **named, "crit": list(named)}


def _claims(jti: str, profile: str) -> dict[str, Any]:
    common = {"iss": ISSUER, "iat": TIMES, "jti": jti, "aud": AUDIENCE, "txn": f"txn-{jti}"}
    if profile == "shared-signals":
        event = {"urn:example:session-revoked": {"event_timestamp": TIMES}}
        return {**common, "sub_id": {"format": "email", "email": "user@example.com"}, "events": event}
    return {**common, "sub": "https://bank.example/domestic-payments/dp-1", "toe": TIMES, "events": _EVENT}


def _sign(alg: str, key: Any, message: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    signed: bytes = key.sign(message, pss if alg == "PS256" else padding.PKCS1v15(), hashes.SHA256())
    return signed


def _new_key(name: str) -> bytes:
    key: Any = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }[name]()
    made: bytes = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made


def _jwk(name: str, key: Any) -> dict[str, str]:
    common = {"kid": name, "use": "sig"}
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        return {**common, "kty": "RSA", "n": _number(public.public_numbers().n, 256), "e": "AQAB"}
    if isinstance(public, ec.EllipticCurvePublicKey):
        numbers = public.public_numbers()
        return {**common, "kty": "EC", "crv": "P-256", "x": _number(numbers.x, 32), "y": _number(numbers.y, 32)}
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {**common, "kty": "OKP", "crv": "Ed25519", "x": _text(raw)}


def _signed_part(token: str) -> str:
    return token.rpartition(".")[0]


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _number(value: int, length: int) -> str:
    return _text(value.to_bytes(length, "big"))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _text_64(value: bytes) -> str:
    return base64.b64encode(value).decode()
