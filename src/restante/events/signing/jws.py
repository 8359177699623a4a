"""Encodes and signs event tokens, and the bodies of messages, as JWS.

    header:  alg kid typ                    Shared Signals: typ is secevent+jwt
             alg kid typ iat iss tan crit   Open Banking: typ is JOSE, three claims under http://openbanking.org.uk/
             … cty, perhaps b64             a message of Open Banking, detached: `message_signatures`

`crit` lists exactly those three claims: a client that does not understand them must refuse the token. The module
imports only cryptography and msgspec, so that signing processes start fast.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key

ALGORITHMS = ("PS256", "ES256", "EdDSA", "RS256")
# Open Banking requires this one for message signatures.
MESSAGE_ALGORITHM = "PS256"
# Shared Signals requires this algorithm, whatever the client has registered for Open Banking.
SHARED_SIGNALS_ALGORITHM = "RS256"

NAMESPACE = "http://openbanking.org.uk/"
_COORDINATE_BYTES = 32

Sign = Callable[[bytes], bytes]

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class SigningInfo:
    """The algorithm, the key and the time (in seconds) of a signature."""

    alg: str
    kid: str
    iat: int


def open_banking_header(info: SigningInfo, issuer: str, trust_anchor: str) -> bytes:
    claims = _open_banking_claims(info, issuer, trust_anchor)
    return _encode_header({"alg": info.alg, "kid": info.kid, "typ": "JOSE", **claims, "crit": list(claims)})


def message_header(info: SigningInfo, issuer: str, trust_anchor: str, *, is_unencoded: bool) -> bytes:
    """Return the header of a message signature. `is_unencoded`: the payload is signed as it is (RFC 7797)."""
    claims = _open_banking_claims(info, issuer, trust_anchor)
    if is_unencoded:
        claims["b64"] = False
    common = {"alg": info.alg, "kid": info.kid, "typ": "JOSE", "cty": "application/json"}
    return _encode_header({**common, **claims, "crit": list(claims)})


def shared_signals_header(info: SigningInfo) -> bytes:
    return _encode_header({"alg": info.alg, "kid": info.kid, "typ": "secevent+jwt"})


def signing_function(alg: str, private_key: bytes) -> Sign:
    """Return a function that signs with a PKCS #8 DER key; raise ValueError if the key does not fit the algorithm."""
    match alg, load_der_private_key(private_key, None):
        case "PS256", rsa.RSAPrivateKey() as key:
            return _rsa(key, padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH))
        case "RS256", rsa.RSAPrivateKey() as key:
            return _rsa(key, padding.PKCS1v15())
        case "ES256", ec.EllipticCurvePrivateKey() as key if isinstance(key.curve, ec.SECP256R1):
            return _ecdsa(key)
        case "EdDSA", ed25519.Ed25519PrivateKey() as key:
            return key.sign
    raise ValueError(f"the key does not fit {alg}")


def compact_token(header: bytes, payload: bytes, sign: Sign) -> str:
    """Return the token in compact form; `header` is already encoded."""
    message = header + b"." + _base64url(payload)
    return (message + b"." + _base64url(sign(message))).decode()


def detached_signature(header: bytes, payload: bytes, sign: Sign, *, is_unencoded: bool) -> bytes:
    """Return the signature in compact form without its payload; `header` is already encoded."""
    return header + b".." + _base64url(sign(message_to_sign(header, payload, is_unencoded=is_unencoded)))


def message_to_sign(header: bytes, payload: bytes, *, is_unencoded: bool) -> bytes:
    return header + b"." + (payload if is_unencoded else _base64url(payload))


def payload_of(compact: str) -> bytes:
    """Return the claims of a token of this server, as the signed bytes."""
    part = compact.split(".")[1]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _open_banking_claims(info: SigningInfo, issuer: str, trust_anchor: str) -> dict[str, Any]:
    return {f"{NAMESPACE}iat": info.iat, f"{NAMESPACE}iss": issuer, f"{NAMESPACE}tan": trust_anchor}


def _rsa(key: rsa.RSAPrivateKey, scheme: Any) -> Sign:
    algorithm = SHA256()
    return lambda message: key.sign(message, scheme, algorithm)


def _ecdsa(key: ec.EllipticCurvePrivateKey) -> Sign:
    algorithm = ec.ECDSA(SHA256())
    return lambda message: _fixed_width(key.sign(message, algorithm))


def _fixed_width(signature: bytes) -> bytes:
    """Convert an ASN.1 signature to the form of JWS: r and s side by side."""
    r, s = decode_dss_signature(signature)
    return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


def _encode_header(header: dict[str, Any]) -> bytes:
    return _base64url(_encoder.encode(header))


def _base64url(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
