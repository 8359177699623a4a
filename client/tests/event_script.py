"""Keys, event tokens and responses of event polling for the scripted server."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from scripted_server import Reply, Request, ScriptedServer, Step

from restante_client import ClientSecret
from restante_client.events.jws import parse, sign

SECRET = ClientSecret("shop", "secret value")


def pem(key: Any) -> bytes:
    encoding, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    made: bytes = key.private_bytes(encoding, pkcs8, serialization.NoEncryption())
    return made


def text(number: int, length: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(length, "big")).rstrip(b"=").decode()


RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
_RSA_PUBLIC, _EC_PUBLIC = RSA_KEY.public_key().public_numbers(), EC_KEY.public_key().public_numbers()
_ED_PUBLIC = ED_KEY.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
RSA_JWK = {"kty": "RSA", "kid": "r", "n": text(_RSA_PUBLIC.n, 256), "e": "AQAB"}
EC_JWK = {"kty": "EC", "crv": "P-256", "kid": "e", "x": text(_EC_PUBLIC.x, 32), "y": text(_EC_PUBLIC.y, 32)}
ED_JWK = {"kty": "OKP", "crv": "Ed25519", "kid": "o", "x": text(int.from_bytes(_ED_PUBLIC, "big"), 32)}
JWKS = {"keys": [RSA_JWK, EC_JWK, ED_JWK, {"kty": "new", "kid": "x"}]}
PEMS = {"r": pem(RSA_KEY), "e": pem(EC_KEY), "o": pem(ED_KEY)}


def event(jti: str, kid: str = "e", alg: str = "ES256", header: Any = None, **claims: Any) -> str:
    body = {"iss": "https://bank.example", "aud": "shop", "jti": jti, "events": {"urn:x": {}}, **claims}
    return sign({"alg": alg, "kid": kid, "typ": "JOSE", **(header or {})}, body, PEMS[kid])


def reply(body: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode())


def metadata(request: Request) -> Reply:
    base = f"http://{request.headers['Host']}"
    return reply({"issuer": "https://bank.example", "token_endpoint": f"{base}/token", "jwks_uri": f"{base}/jwks.json"})


TOKEN = reply({"access_token": "secret-access", "expires_in": 600})
LOGIN: tuple[Step, ...] = (metadata, TOKEN)


def sets(*tokens: str, more: bool = False) -> Reply:
    return reply({"sets": {parse(token).claims["jti"]: token for token in tokens}, "moreAvailable": more})


def polls(server: ScriptedServer) -> list[dict[str, Any]]:
    return [request.json for request in server.requests if request.path.endswith("/events")]
