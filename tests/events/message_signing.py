"""Message signatures of Open Banking, made and verified without the server's code."""

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from jwt.algorithms import RSAAlgorithm

from tests.events.client_keys import private_key

NAMESPACE = "http://openbanking.org.uk/"
CLAIMS = [f"{NAMESPACE}{name}" for name in ("iat", "iss", "tan")]
_PSS = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)


def header_of(key: str = "rsa-1", *, is_unencoded: bool = False, now: float | None = None) -> dict[str, Any]:
    """The header as the profile of Open Banking wants it."""
    values = [int(time.time() if now is None else now), "0015800001041RHAAY/softwareid", "openbanking.org.uk"]
    claims = dict(zip(CLAIMS, values, strict=True))
    unencoded = {"b64": False} if is_unencoded else {}
    crit = [*unencoded, *claims]
    return {"alg": "PS256", "kid": key, "typ": "JOSE", "cty": "application/json", **unencoded, **claims, "crit": crit}


def sign(body: bytes, header: dict[str, Any], key: str = "rsa-1") -> str:
    """The value of `x-jws-signature`."""
    encoded = _encode(json.dumps(header).encode())
    signature = private_key(key).sign(_signed(encoded, body, header), _PSS, SHA256())
    return f"{encoded}..{_encode(signature)}"


def verified_header(value: str, body: bytes, jwks: dict[str, Any]) -> dict[str, Any]:
    """The header of a signature; raises InvalidSignature if it is not of a key of the set over this body."""
    encoded, payload, signature = value.split(".")
    assert payload == ""
    header: dict[str, Any] = json.loads(_decode(encoded))
    [found] = [key for key in jwks["keys"] if key["kid"] == header["kid"]]
    key: Any = RSAAlgorithm.from_jwk(found)
    key.verify(_decode(signature), _signed(encoded, body, header), _PSS, SHA256())
    return header


def _signed(encoded_header: str, body: bytes, header: dict[str, Any]) -> bytes:
    payload = body if header.get("b64") is False else _encode(body).encode()
    return encoded_header.encode() + b"." + payload


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
