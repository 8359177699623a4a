"""Signing what is handed out, and checking what was signed: commands from outside, and ACKs.

A command's signature covers its eleven signed fields; an ACK's, everything it says but the signature itself. Both are
the HMAC of the canonical JSON, keyed with the text of the collector's secret. Knows nothing of where secrets are kept.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from restante.core.canonical import (
    SIG_ENCODING,
    SIG_VERSION,
    SIGNED_FIELDS,
    canonical,
    is_signature,
    reference,
    signature_of,
    signed_part,
)


class SignatureVerdict(NamedTuple):
    is_valid: bool
    reason: str


def sign(part: object, secret: str) -> str:
    """The signature of exactly the fields given."""
    return signature_of(secret, canonical(part))


def verify_signed(command: Mapping[str, Any], secret: str) -> SignatureVerdict:
    """Whether a command, as a collector was handed it, carries the signature that the secret gives."""
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
        message = reference(signed_part(command))
    except (ValueError, TypeError):
        return SignatureVerdict(False, "the command holds what no canonical JSON can")
    if not is_signature(given, secret, message):
        return SignatureVerdict(False, "the signature is not the one this secret gives")
    return SignatureVerdict(True, "the signature holds")


def is_ack_signed(body: bytes, secrets: Iterable[str]) -> bool:
    """Whether an ACK's body carries the signature that one of the secrets gives.

    Unlike a command, an ACK may hold floats, in its snapshots: so its canonical form is the contract's own, where
    a float is written as the shortest text that reads back as the same number.
    """
    try:
        said = json.loads(body)
        given = said.pop("signature")
        message = reference(said)
    except (ValueError, RecursionError):
        # Nested deeper than can be written again, though it could be read: nobody signs that.
        return False
    return isinstance(given, str) and any(is_signature(given, secret, message) for secret in secrets)
