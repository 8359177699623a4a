"""Client keys and assertions, made with another JWT library than the server uses."""

import json
import time
from functools import cache
from typing import Any
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@cache
def private_key(name: str) -> Any:
    """Return the one key of this name in the process; the name starts with its kind."""
    kind = name.partition("-")[0]
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    if kind == "small":
        return rsa.generate_private_key(65537, 1024)
    return ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else ed25519.Ed25519PrivateKey.generate()


def jwk(name: str, **changed: Any) -> dict[str, Any]:
    """Return the public key in the form in which a client registers it."""
    return {**_as_jwk(private_key(name).public_key()), "kid": name, **changed}


def private_jwk(name: str) -> dict[str, Any]:
    return {**_as_jwk(private_key(name)), "kid": name}


def public_pem(name: str) -> bytes:
    pem: bytes = private_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def jwks(*names: str) -> dict[str, Any]:
    return {"keys": [jwk(name) for name in names]}


def assertion(
    client_id: str,
    audience: Any,
    key: str = "ec-1",
    alg: str = "ES256",
    *,
    kid: str | None = None,
    names_key: bool = True,
    seconds: int = 60,
    **changed: Any,
) -> str:
    """Make a valid assertion with the given claims changed; None removes a claim."""
    now = time.time()
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": int(now),
        "exp": int(now) + seconds,
        "jti": str(uuid4()),
        **changed,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, private_key(key), alg, headers={"kid": kid or key} if names_key else None)


def assertion_form(text: str, **more: str) -> dict[str, str]:
    return {
        "grant_type": "client_credentials",
        "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": text,
        **more,
    }


def _as_jwk(key: PrivateKeyTypes | Any) -> dict[str, Any]:
    algorithm: Any = (
        RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey)
        else ECAlgorithm
        if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey)
        else OKPAlgorithm
    )
    found: dict[str, Any] = json.loads(algorithm.to_jwk(key))
    # Library versions differ in the members beside the key itself.
    return {name: value for name, value in found.items() if name not in ("key_ops", "use", "alg", "kid")}
