"""Signing of commands, and verification of signed commands and ACKs.

A command's signature covers its eleven signed fields. An ACK's signature covers its whole body except the signature.
Both are the HMAC of canonical JSON, keyed with the text of the collector's secret. This module does not know where
secrets are stored.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from restante.core.commands.canonical import (
    SIG_ENCODING,
    SIG_VERSION,
    SIGNED_FIELDS,
    canonical_json,
    reference_json,
    signature_matches,
    signature_of,
    signed_fields,
)


class SignatureVerdict(NamedTuple):
    is_valid: bool
    reason: str


def sign(fields: object, secret: str) -> str:
    """Sign exactly the given fields."""
    return signature_of(secret, canonical_json(fields))


def verify_command(command: Mapping[str, Any], secret: str) -> SignatureVerdict:
    """Check the signature of a command as a collector received it."""
    missing = [field for field in SIGNED_FIELDS if field not in command]
    if missing:
        return SignatureVerdict(False, f"not a signed command: {', '.join(missing)} missing")
    given = command.get("signature")
    if not isinstance(given, str):
        return SignatureVerdict(False, "the command carries no signature")
    for field, known in (("sig_version", SIG_VERSION), ("sig_encoding", SIG_ENCODING)):
        if command.get(field) != known:
            return SignatureVerdict(False, f"{field} is not {known}")
    try:
        message = reference_json(signed_fields(command))
    except (ValueError, TypeError):
        return SignatureVerdict(False, "the command has no canonical JSON")
    if not signature_matches(given, secret, message):
        return SignatureVerdict(False, "the signature does not match this secret")
    return SignatureVerdict(True, "the signature holds")


def is_ack_signature_valid(body: bytes, secrets: Iterable[str]) -> bool:
    """Whether the body's signature matches one of the secrets.

    Unlike a command, an ACK may contain floats in its snapshots. So its canonical form is the contract's own, where a
    float is written as the shortest text that reads back as the same number.
    """
    try:
        fields = json.loads(body)
        given = fields.pop("signature")
        message = reference_json(fields)
    except (ValueError, RecursionError):
        # JSON that is nested too deep to encode again cannot have been signed.
        return False
    return isinstance(given, str) and any(signature_matches(given, secret, message) for secret in secrets)
