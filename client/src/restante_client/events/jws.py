"""Signed tokens: verifying event tokens with a JWKS, and signing client assertions.

Only the four algorithms of the protocol. The algorithm must fit the type of the key, so a token cannot choose a weaker
check. A `crit` header with a name that is not understood is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from restante_client.errors import VerificationFailed

ALGORITHMS = ("PS256", "RS256", "ES256", "EdDSA")
RSA_BITS_MIN = 2048
# Open Banking's header names: issuer, time and trust anchor of the signature.
UNDERSTOOD = frozenset(f"http://openbanking.org.uk/{name}" for name in ("iat", "iss", "tan"))
_P256_BYTES = 32
_SHA256 = hashes.SHA256()
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), 32)

PublicKey = Union[rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey]


@dataclass(frozen=True)
class SignedToken:
    """A token in its parts, not verified yet."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def parse(token: str) -> SignedToken:
    try:
        header, payload, signature = token.split(".")
        found = SignedToken(
            json.loads(_bytes(header)), json.loads(_bytes(payload)), f"{header}.{payload}".encode(), _bytes(signature)
        )
    except (ValueError, binascii.Error):
        raise VerificationFailed("it is not a signed token") from None
    if not isinstance(found.header, dict) or not isinstance(found.claims, dict):
        raise VerificationFailed("it is not a signed token")
    return found


def read_jwks(document: Any) -> dict[str, PublicKey]:
    """The public keys by their id. A key of a type that is not understood is left out."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise VerificationFailed("the JWKS has no list of keys")
    found: dict[str, PublicKey] = {}
    for key in keys:
        if isinstance(key, dict) and isinstance(key.get("kid"), str):
            try:
                public = _public_key(key)
            except (KeyError, TypeError, ValueError):
                continue
            if public is not None:
                found.setdefault(key["kid"], public)
    return found


def verify(token: SignedToken, keys: Mapping[str, PublicKey]) -> None:
    """Check the signature, or raise `VerificationFailed`. `UnknownKey` if no key has the token's `kid`."""
    algorithm, kid, critical = token.header.get("alg"), token.header.get("kid"), token.header.get("crit", None)
    if algorithm not in ALGORITHMS:
        raise VerificationFailed(f"the algorithm {algorithm!r} is not accepted")
    if critical is not None and (not isinstance(critical, list) or not critical or not UNDERSTOOD.issuperset(critical)):
        raise VerificationFailed("the token has a critical header that is not understood")
    key = keys.get(kid) if isinstance(kid, str) else None
    if key is None:
        raise UnknownKey(f"no key has the id {kid!r}")
    try:
        _verify(str(algorithm), key, token.signature, token.signed)
    except InvalidSignature:
        raise VerificationFailed("the signature is wrong") from None


class UnknownKey(VerificationFailed):
    """No key has the id that the token names. The JWKS may be out of date."""


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], private_key_pem: bytes) -> str:
    """A signed token. The algorithm is in the header."""
    key = serialization.load_pem_private_key(private_key_pem, None)
    signed = f"{_text(json.dumps(header).encode())}.{_text(json.dumps(claims).encode())}"
    algorithm, message = header["alg"], signed.encode()
    if algorithm in ("PS256", "RS256") and isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(message, _PSS if algorithm == "PS256" else padding.PKCS1v15(), _SHA256)
    elif algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(_SHA256)))
        signature = r.to_bytes(_P256_BYTES, "big") + s.to_bytes(_P256_BYTES, "big")
    elif algorithm == "EdDSA" and isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(message)
    else:
        raise ValueError(f"algorithm: {algorithm!r} does not fit the private key")
    return f"{signed}.{_text(signature)}"


def _verify(algorithm: str, key: PublicKey, signature: bytes, message: bytes) -> None:
    if algorithm in ("PS256", "RS256") and isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, message, _PSS if algorithm == "PS256" else padding.PKCS1v15(), _SHA256)
    elif algorithm == "ES256" and isinstance(key, ec.EllipticCurvePublicKey):
        if len(signature) != 2 * _P256_BYTES:
            raise InvalidSignature
        r, s = (int.from_bytes(part, "big") for part in (signature[:_P256_BYTES], signature[_P256_BYTES:]))
        key.verify(encode_dss_signature(r, s), message, ec.ECDSA(_SHA256))
    elif algorithm == "EdDSA" and isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signature, message)
    else:
        raise VerificationFailed(f"the algorithm {algorithm} does not fit the key")


def _public_key(key: Mapping[str, Any]) -> PublicKey | None:
    kind, curve = key.get("kty"), key.get("crv")
    if key.get("use", "sig") != "sig":
        return None
    if kind == "RSA":
        public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
        return public if public.key_size >= RSA_BITS_MIN else None
    if kind == "EC" and curve == "P-256":
        return ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), ec.SECP256R1()).public_key()
    if kind == "OKP" and curve == "Ed25519":
        return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(key["x"]))
    return None


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
