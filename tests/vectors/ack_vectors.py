"""The vectors of ACK signatures. They follow the contract's recipe and share no code with server or client."""

import hashlib
import hmac
import json
from typing import Any

NAME = "ack-signatures.json"

EXAMPLE: dict[str, Any] = {
    "status": "succeeded",
    "result_code": 0,
    "message": "Command executed successfully",
    "executed_at": "2026-01-18T10:05:00Z",
    "nonce": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "attempt": 1,
}
CASES: dict[str, dict[str, Any]] = {
    "the specification's own example": {},
    "a failure with a text as its code": {"status": "failed", "result_code": "MINER_UNREACHABLE", "attempt": 3},
    "a deferred command": {"status": "deferred", "retry_after_sec": 60},
    "snapshots with decimal numbers": {
        "before_snapshot": {"temp_max": 80.5, "hashrate": 100.0, "is_hashing": True},
        "after_snapshot": {"temp_max": 61.25, "hashrate": 0.0, "is_hashing": False},
    },
    "very small and very large numbers": {"before_snapshot": {"small": 1e-07, "large": 1e16, "tiny": 5e-324}},
    "numbers that are whole": {"before_snapshot": {"whole": 1.0, "minus": -0.0, "integer": 1, "big": 2**53}},
    "a text that is not ASCII": {"message": "Überhitzung, 95 °C 🔥"},
    "control characters and quotes": {"message": 'line\nbreak\ttab "quoted" \\ / \x7f'},
    "snapshots of several miners": {"after_snapshot": {"1002": {"fan_rpm": [3600, 3500]}, "1001": {"fan_rpm": []}}},
    "no message": {"message": ""},
    "no snapshot": {"before_snapshot": None, "after_snapshot": None},
}


def build() -> dict[str, Any]:
    return {
        "how": "Remove `signature` from the body, write the rest as canonical JSON (keys sorted, no spaces, UTF-8, "
        "numbers as Python's json writes them): signature = HMAC-SHA256(key = the secret's text, message), in hex",
        "vectors": [_vector(number, name, changed) for number, (name, changed) in enumerate(CASES.items())],
    }


def _vector(number: int, name: str, changed: dict[str, Any]) -> dict[str, Any]:
    ack = {**EXAMPLE, **changed}
    secret = hashlib.sha256(f"ack vector {number}".encode()).hexdigest()
    text = json.dumps(ack, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {
        "name": name,
        "ack": ack,
        "canonical_json": text,
        "canonical_hex": text.encode().hex(),
        "secret": secret,
        "signature": signature,
        # The body as a collector sends it: spaces and the order of its members do not matter.
        "body": json.dumps({"signature": signature, **ack}, ensure_ascii=False),
    }
