"""Event tokens as JWS: their header, their signature, their bytes.

    header:  alg kid typ                    secevent+jwt, for shared signals
             alg kid typ iat iss tan crit   JOSE, as Open Banking has it: its three claims under http://openbanking.org.uk/

`crit` names exactly those three: a reader that does not understand them must refuse the token. Imports nothing but the
cryptography, as the processes that sign start with it.
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
# Shared Signals asks for this one, whatever a client of Open Banking would like.
SHARED_SIGNALS_ALGORITHM = "RS256"

_NAMESPACE = "http://openbanking.org.uk/"
_COORDINATE_BYTES = 32

Sign = Callable[[bytes], bytes]

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Signature:
    """With what a token is signed, and when (seconds)."""

    alg: str
    kid: str
    iat: int


def open_banking_header(signature: Signature, issuer: str, trust_anchor: str) -> bytes:
    claims = {f"{_NAMESPACE}iat": signature.iat, f"{_NAMESPACE}iss": issuer, f"{_NAMESPACE}tan": trust_anchor}
    return _encoded({"alg": signature.alg, "kid": signature.kid, "typ": "JOSE", **claims, "crit": list(claims)})


def shared_signals_header(signature: Signature) -> bytes:
    return _encoded({"alg": signature.alg, "kid": signature.kid, "typ": "secevent+jwt"})


def sign_with(alg: str, private_key: bytes) -> Sign:
    """How to sign with a private key, which is given as PKCS #8 in DER; ValueError if it is not the algorithm's."""
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


def token(header: bytes, payload: bytes, sign: Sign) -> str:
    """The token in its compact form; the header is encoded already."""
    message = header + b"." + _base64url(payload)
    return (message + b"." + _base64url(sign(message))).decode()


def payload_of(compact: str) -> bytes:
    """The claims of a token of ours, as they were signed."""
    part = compact.split(".")[1]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _rsa(key: rsa.RSAPrivateKey, scheme: Any) -> Sign:
    algorithm = SHA256()
    return lambda message: key.sign(message, scheme, algorithm)


def _ecdsa(key: ec.EllipticCurvePrivateKey) -> Sign:
    algorithm = ec.ECDSA(SHA256())
    return lambda message: _fixed_width(key.sign(message, algorithm))


def _fixed_width(signature: bytes) -> bytes:
    """JWS writes the two numbers side by side, the library as a structure of ASN.1."""
    r, s = decode_dss_signature(signature)
    return r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")


def _encoded(header: dict[str, Any]) -> bytes:
    return _base64url(_encoder.encode(header))


def _base64url(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
