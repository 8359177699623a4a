"""A client's public keys for its assertions, as a JWKS: checked at registration, loaded at verification.

Invariants:
- No private or symmetric key is stored.
- A key verifies only the accepted algorithms of its type, so that no assertion can misuse a key for another algorithm.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import Key, import_key

from restante.core.errors import BadInput
from restante.identity.jwt.jwks import RSA_BITS_MIN, rsa_bits

ALGORITHMS = ("PS256", "ES256", "EdDSA", "RS256")
KEYS_MAX = 20
KID_LENGTH_MAX = 128
RSA_BITS_MAX = 8192

_ALGORITHMS_OF = {"RSA": ("PS256", "RS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_PUBLIC = ("kty", "kid", "use", "alg", "n", "e", "crv", "x", "y")
_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")


def check_jwks(jwks: object, field: str = "jwks") -> str:
    """Check a JWKS; return it with public members only, as it is stored. Raise BadInput for an invalid member."""
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not 1 <= len(keys) <= KEYS_MAX:
        raise BadInput(f"{field}.keys", f"a list of 1 to {KEYS_MAX} public keys")
    kept = [_check_key(each, f"{field}.keys[{n}]") for n, each in enumerate(keys)]
    if len({each["kid"] for each in kept}) != len(kept):
        raise BadInput(f"{field}.keys", "a kid of its own for each key")
    return msgspec.json.encode({"keys": kept}).decode()


def usable_jwks(jwks: object, field: str) -> str:
    """The usable keys of a JWKS that serves other purposes too, as they are stored; raise BadInput if there is none.

    Ignored: keys for encryption, of other types, without a kid, malformed ones, and all after the first twenty.
    """
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    usable: dict[str, dict[str, str]] = {}
    for each in keys if isinstance(keys, list) else []:
        try:
            kept = _check_key(each, field)
        except BadInput:
            continue
        usable.setdefault(kept["kid"], kept)
    if not usable:
        expected = f"the address of a JWKS with a public key for {', '.join(ALGORITHMS)} that has a kid"
        raise BadInput(field, expected)
    return msgspec.json.encode({"keys": list(usable.values())[:KEYS_MAX]}).decode()


def find_keys(jwks: str, kid: str | None, alg: str) -> list[Key]:
    """Return the keys that are valid for that algorithm: the one with that kid, or all if no kid is given."""
    return [
        key for (name, valid_alg), key in _load_keys(jwks).items() if valid_alg == alg and (kid is None or name == kid)
    ]


def kids(jwks: str | None) -> list[str]:
    return [] if jwks is None else [each["kid"] for each in msgspec.json.decode(jwks)["keys"]]


@lru_cache(1024)
def _load_keys(jwks: str) -> dict[tuple[str, str], Key]:
    return dict(_by_kid_and_algorithm(msgspec.json.decode(jwks)["keys"]))


def _by_kid_and_algorithm(keys: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], Key]]:
    for each in keys:
        for alg in [each["alg"]] if "alg" in each else _ALGORITHMS_OF[each["kty"]]:
            yield (each["kid"], alg), import_key(each)


def _check_key(key: object, field: str) -> dict[str, str]:
    if not isinstance(key, dict):
        raise BadInput(field, "a JSON Web Key")
    for name in _PRIVATE:
        if name in key:
            raise BadInput(f"{field}.{name}", "a public key only; a private key must stay with the client")
    kind, kid = key.get("kty"), key.get("kid")
    if not isinstance(kind, str) or kind not in _ALGORITHMS_OF:
        raise BadInput(f"{field}.kty", "one of RSA, EC, OKP")
    if not isinstance(kid, str) or not 1 <= len(kid) <= KID_LENGTH_MAX or not kid.isprintable():
        raise BadInput(f"{field}.kid", f"a name of 1 to {KID_LENGTH_MAX} characters")
    _check_use(key, kind, field)
    kept = {name: key[name] for name in _PUBLIC if name in key}
    try:
        if kind == "RSA":
            _check_size(kept["n"], field)
        # Importing the key checks that its numbers form a valid key.
        _ = import_key(kept).public_key
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(field, f"a valid {kind} public key") from None
    return kept


def _check_use(key: dict[str, Any], kind: str, field: str) -> None:
    if key.get("use", "sig") != "sig":
        raise BadInput(f"{field}.use", "sig")
    operations = key.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise BadInput(f"{field}.key_ops", "a list with verify")
    allowed = _ALGORITHMS_OF[kind]
    if "alg" in key and key["alg"] not in allowed:
        raise BadInput(f"{field}.alg", f"one of {', '.join(allowed)} for a key of type {kind}")
    if kind in _CURVES and key.get("crv") != _CURVES[kind]:
        raise BadInput(f"{field}.crv", _CURVES[kind])


def _check_size(modulus: str, field: str) -> None:
    if not RSA_BITS_MIN <= rsa_bits(modulus) <= RSA_BITS_MAX:
        raise BadInput(f"{field}.n", f"{RSA_BITS_MIN} to {RSA_BITS_MAX} bits")
