"""The signatures of commands and ACKs: HMAC-SHA256 over canonical JSON."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

SIG_VERSION = "HMAC-SHA256-CANONICAL-JSON-V1"
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


def canonical_json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sign(fields: Mapping[str, Any], secret: str) -> str:
    """The text of the secret is the key: its digits are not decoded."""
    return hmac.new(secret.encode(), canonical_json(fields), hashlib.sha256).hexdigest()


def is_genuine(command: Mapping[str, Any], secrets: Sequence[str]) -> bool:
    """Whether all signed fields of the command are signed with one of the secrets."""
    found = command.get("signature")
    if command.get("sig_version") != SIG_VERSION or not isinstance(found, str):
        return False
    if any(name not in command for name in SIGNED_FIELDS):
        return False
    fields = {name: command[name] for name in SIGNED_FIELDS}
    return any(hmac.compare_digest(sign(fields, secret).encode(), found.encode()) for secret in secrets)
