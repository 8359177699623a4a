"""The published vectors for command signatures: `python -m tests.vectors` writes the file.

They follow the contract's recipe, written out here a second time: they share no code with the server.
"""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

VECTORS_PATH = Path(__file__).parents[2] / "vectors" / "command-signatures.json"

EXAMPLE: dict[str, Any] = {
    "command_id": "cmd_abc123",
    "site_id": 42,
    "zone_id": 5,
    "miner_id": 1001,
    "command_type": "MINER_RESTART",
    "params": {"reason": "scheduled_maintenance"},
    "priority": 0,
    "expires_at": "2026-01-18T12:00:00Z",
    "dedupe_key": "rule_001_miner_1001_restart",
    "signed_at": "2026-01-18T10:00:00Z",
    "nonce": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
}


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"end": True}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


CASES: dict[str, dict[str, Any]] = {
    "the specification's own example": {},
    "no dedupe key": {"dedupe_key": None},
    "a command for many miners": {"miner_id": None, "params": {"target_ids": [1001, 1002, 1003]}},
    "no miner and no dedupe key": {"miner_id": None, "dedupe_key": None, "params": {"target_ids": [1]}},
    "empty params": {"params": {}},
    "a null in params": {"params": {"reason": None}},
    "booleans in params": {"params": {"force": True, "dry_run": False}},
    "zero and negative integers": {"params": {"zero": 0, "minus": -40}},
    "the largest integer": {"params": {"n": 2**53}},
    "the smallest integer": {"params": {"n": -(2**53)}},
    "an empty text": {"params": {"reason": ""}},
    "an empty key": {"params": {"": "nameless"}},
    "keys out of order": {"params": {"b": 1, "a": 2, "c": 0}},
    "keys in capitals come first": {"params": {"b": 1, "B": 2, "a": 3, "A": 4, "_": 5, "1": 6}},
    "keys that begin alike": {"params": {"pool": 1, "pool_url": 2, "poolurl": 3, "pool-url": 4}},
    "nested objects are ordered too": {"params": {"z": {"b": 1, "a": {"d": 1, "c": 2}}, "a": 0}},
    "lists keep their order": {"params": {"list": [3, 1, 2, "b", "a", None, True, [], {}]}},
    "objects within lists": {
        "params": {"pools": [{"url": "stratum+tcp://a:1", "user": "u"}, {"user": "", "url": "b"}]}
    },
    "sixteen levels": {"params": _nested(16)},
    "umlauts": {"params": {"grund": "Überhitzung, größer als 95 °C"}},
    "keys that are not ASCII": {"params": {"ключ": 1, "鍵": 2, "é": 3, "z": 4}},
    "Chinese": {"params": {"reason": "计划维护"}},
    "right to left": {"params": {"reason": "צינון", "note": "تبريد"}},
    "beyond the basic plane": {"params": {"reason": "🔥 too hot 🔥", "🔧": 1}},
    "keys on both sides of the surrogates": {"params": {"\uffee": 1, "\U0001f525": 2, "\ud7ff": 3}},
    "combining characters are not composed": {"params": {"nfd": "e\u0301", "nfc": "\u00e9"}},
    "quotes and backslashes": {"params": {"path": "C:\\miner\\bin", "said": 'he said "no"'}},
    "a slash is not escaped": {"params": {"url": "https://pool.example/a/b"}},
    "control characters": {"params": {"text": "\b\f\n\r\t\x00\x01\x1f\x7f"}},
    "line and paragraph separators": {"params": {"text": "a\u2028b\u2029c\u0085d"}},
    "characters that HTML escapes": {"params": {"text": "<a href='x'>&amp;</a>"}},
    "texts that look like numbers": {"params": {"voltage": "12.50", "factor": "1e3", "nan": "NaN"}},
    "a byte order mark within": {"params": {"text": "\ufeffa\u200bb\u200d"}},
    "a high priority": {"priority": 1000},
    "a dedupe key of hexadecimal digits": {"dedupe_key": "9f86d081884c7d659a2feaa0c55ad015"},
    "a dedupe key that is not ASCII": {"dedupe_key": "règle_1:mineur_7"},
    "large ids": {
        "site_id": 9_007_199_254_740_991,
        "zone_id": 9_007_199_254_740_990,
        "miner_id": 9_007_199_254_740_989,
    },
    "another type with its params": {"command_type": "POWER_MODE", "params": {"mode": "LOW"}, "priority": 5},
    "a fan speed": {"command_type": "SET_FAN", "params": {"speed": 100}},
    "a pool": {
        "command_type": "POOL_SET",
        "params": {"pools": [{"url": "stratum+tcp://pool.example:3333", "user": "farm.1", "password": "x"}]},
    },
}


def build_vectors() -> dict[str, Any]:
    return {
        "sig_version": "HMAC-SHA256-CANONICAL-JSON-V1",
        "sig_encoding": "hex",
        "how": "signature = HMAC-SHA256(key = the secret's text as UTF-8, message = canonical_json as UTF-8), in hex",
        "vectors": [_vector(number, name, changed) for number, (name, changed) in enumerate(CASES.items())],
    }


def _vector(number: int, name: str, changed: dict[str, Any]) -> dict[str, Any]:
    command = {**EXAMPLE, **changed}
    secret = hashlib.sha256(f"vector {number}".encode()).hexdigest()
    text = json.dumps(command, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {
        "name": name,
        "command": command,
        "canonical_json": text,
        "canonical_hex": text.encode("utf-8").hex(),
        "secret": secret,
        "signature": hmac.new(secret.encode("utf-8"), text.encode("utf-8"), hashlib.sha256).hexdigest(),
    }
