"""Canonical JSON and its HMAC: the bytes that a command's signature covers.

`reference_json` is the contract's definition: json.dumps with sorted keys, no spaces and no unnecessary escapes.
`canonical_json` gives the same bytes for every value that a command may contain, in a tenth of the time. They differ on
floats only, which are refused on creation. Of commands, this module uses the names of the signed fields only.
"""

import hmac
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from restante.core.keyed_hash import KeyedHash

SIG_VERSION = "HMAC-SHA256-CANONICAL-JSON-V1"
SIG_ENCODING = "hex"
SIGNED_FIELDS = (
    "command_id",
    "site_id",
    "zone_id",
    "miner_id",
    "command_type",
    "params",
    "priority",
    "expires_at",
    "dedupe_key",
    "signed_at",
    "nonce",
)

KEYS_MAX = 10_000

_encoder = msgspec.json.Encoder(order="sorted")


def canonical_json(value: object) -> bytes:
    """Encode a value that can be signed."""
    return _encoder.encode(value)


def reference_json(value: object) -> bytes:
    """Encode as the contract defines it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def signed_fields(command: Mapping[str, Any]) -> dict[str, Any]:
    """The eleven signed fields of a command."""
    return {field: command[field] for field in SIGNED_FIELDS}


def signature_of(secret: str, message: bytes) -> str:
    """The contract uses the text of the secret as the HMAC key, not the bytes that its hexadecimal digits encode."""
    return _keyed_hash(secret).digest(message).hex()


# A collector's commands are all signed with the same secret.
@lru_cache(KEYS_MAX)
def _keyed_hash(secret: str) -> KeyedHash:
    return KeyedHash(secret.encode())


def signature_matches(given: str, secret: str, message: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), signature_of(secret, message).encode())
