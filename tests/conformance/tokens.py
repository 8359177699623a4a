"""Access tokens of devices: valid ones, and all kinds that the server must refuse."""

import base64
import time
from typing import Any

import msgspec
from joserfc import jws
from joserfc.jwk import OctKey, OKPKey

from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.jwt.jwts import AllowedAlgorithms
from restante.server.app import Node

_ANY_ALGORITHM = AllowedAlgorithms(["EdDSA", "HS256", "none"])

# The token claims that differ from a good token; None removes the claim.
_CLAIMS: dict[str, dict[str, Any]] = {
    "good": {},
    "expired": {"exp": 1_000_000_000},
    "not valid yet": {"nbf": 9_000_000_000},
    "without expiry": {"exp": None},
    "without device_id": {"device_id": None},
    "with a device_id that is no id": {"device_id": "seven"},
    "with the device_id as text": {"device_id": "{device_id}"},
    "of another issuer": {"iss": "https://elsewhere.example"},
    "without subject": {"sub": None},
    "of another user": {"sub": "{other_user_id}"},
    "of an absent device": {"device_id": 999_999_999},
}


class Tokens:
    """Creates tokens for one device of a node."""

    def __init__(self, node: Node, user_id: int, other_user_id: int, device_id: int) -> None:
        self._node = node
        self._names = {"{device_id}": str(device_id), "{other_user_id}": str(other_user_id)}
        now = int(time.time())
        self._claims = {
            "iss": "restante",
            "sub": str(user_id),
            "device_id": device_id,
            "iat": now,
            "exp": now + 3600,
            "jti": "a",
        }

    def create(self, kind: str) -> str:
        if kind in _CLAIMS:
            return self._signed(_CLAIMS[kind])
        match kind:
            case "garbage":
                return "garbage"
            case "with three empty parts":
                return ".."
            case "too long":
                return self._signed({"jti": "a" * 10_000})
            case "with its signature cut off":
                return self._signed({}).rpartition(".")[0] + "."
            case "altered":
                return self._altered()
            case "of algorithm none":
                return _unsigned(self._header("none"), self._claims)
            case "of a secret that is our public key":
                return self._signed_by_public_key()
            case "of another key under our key's name":
                return self._signed({}, key=OKPKey.generate_key("Ed25519"))
            case "with its own key in the header":
                return self._signed_by_own_key()
            case "of an unknown key":
                return self._signed({}, kid="unknown")
            case "without a key name":
                return self._signed({}, kid=None)
            case "an API key":
                return self._node.database.write_now(api_keys.create, "a", Role.admin)[1]
        raise ValueError(f"unknown kind of token: {kind}")

    def _header(self, algorithm: str) -> dict[str, Any]:
        return {"alg": algorithm, "typ": "at+jwt", "kid": self._node.identity.signing_keys.signing[0]}

    def _signed(self, changed: dict[str, Any], *, key: Any = None, kid: str | None = "ours") -> str:
        header = self._header("EdDSA")
        if kid is None:
            del header["kid"]
        elif kid != "ours":
            header["kid"] = kid
        named = {name: self._names.get(value, value) for name, value in changed.items()}
        claims = {name: value for name, value in {**self._claims, **named}.items() if value is not None}
        return _serialized(header, claims, key or self._node.identity.signing_keys.signing[1])

    def _altered(self) -> str:
        """A good token whose claims were replaced by those of another device."""
        head, _, signature = self._signed({}).split(".")
        other = self._signed({"device_id": 999_999_999}).split(".")[1]
        return f"{head}.{other}.{signature}"

    def _signed_by_public_key(self) -> str:
        public = self._node.identity.signing_keys.signing[1].as_dict(private=False)["x"]
        return _serialized(self._header("HS256"), self._claims, OctKey.import_key(str(public)))

    def _signed_by_own_key(self) -> str:
        own = OKPKey.generate_key("Ed25519")
        header = {**self._header("EdDSA"), "jwk": own.as_dict(private=False)}
        return _serialized(header, self._claims, own)


def _serialized(header: dict[str, Any], claims: dict[str, Any], key: Any) -> str:
    return jws.serialize_compact(header, msgspec.json.encode(claims), key, registry=_ANY_ALGORITHM)


def _unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (base64.urlsafe_b64encode(msgspec.json.encode(part)).rstrip(b"=").decode() for part in (header, claims))
    return ".".join([*parts, ""])
