"""Canonical JSON and its HMAC: the bytes a command is signed over.

The contract's form is `reference`: json.dumps with sorted keys, no spaces and no escapes beyond the needed. `canonical`
gives the same bytes for everything a command may carry, in a tenth of the time; they part on floats only, which are
refused when a command is made. Knows nothing of commands beyond the names of the eleven fields that are signed.
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


def canonical(value: object) -> bytes:
    """The canonical JSON of something that can be signed."""
    return _encoder.encode(value)


def reference(value: object) -> bytes:
    """The canonical JSON as the contract defines it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def signed_part(command: Mapping[str, Any]) -> dict[str, Any]:
    """The eleven fields that are signed, and nothing else the command has."""
    return {field: command[field] for field in SIGNED_FIELDS}


def signature_of(secret: str, message: bytes) -> str:
    """The contract keys the HMAC with the secret's text, not with the bytes that its hexadecimal digits stand for."""
    return _keyed(secret).digest(message).hex()


# What a collector is handed is signed with the same secret each time.
@lru_cache(KEYS_MAX)
def _keyed(secret: str) -> KeyedHash:
    return KeyedHash(secret.encode())


def is_signature(given: str, secret: str, message: bytes) -> bool:
    """Compare without telling by the time it takes how much of it was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), signature_of(secret, message).encode())
