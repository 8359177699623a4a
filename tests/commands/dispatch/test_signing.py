"""Signatures of commands and ACKs, checked against the published vectors."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from restante.commands.dispatch.signing import is_ack_signature_valid, sign, verify_command
from restante.commands.lifecycle.params import parse_params
from restante.core.commands.canonical import SIGNED_FIELDS, canonical_json, reference_json, signature_of, signed_fields
from tests.commands.signature_vectors import VECTORS_PATH, build_vectors

VECTORS: list[dict[str, Any]] = json.loads(VECTORS_PATH.read_text(encoding="utf-8"))["vectors"]
NAMES = [vector["name"] for vector in VECTORS]


def test_published_vectors_follow_the_contract() -> None:
    assert json.loads(VECTORS_PATH.read_text(encoding="utf-8")) == build_vectors()


def test_published_vectors_are_distinct_and_at_least_thirty() -> None:
    assert len(VECTORS) >= 30
    assert len(set(NAMES)) == len(NAMES)
    assert all(len(vector["secret"]) == 64 for vector in VECTORS)


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_server_signs_as_published(vector: dict[str, Any]) -> None:
    command = vector["command"]
    assert parse_params(reference_json(command["params"])) == command["params"]
    fields = signed_fields(command)
    assert canonical_json(fields) == vector["canonical_json"].encode() == bytes.fromhex(vector["canonical_hex"])
    assert sign(fields, vector["secret"]) == vector["signature"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_signs_as_published(tmp_path: Path) -> None:
    for vector in VECTORS:
        message = tmp_path / "message"
        message.write_bytes(bytes.fromhex(vector["canonical_hex"]))
        fields = subprocess.run(
            ["openssl", "dgst", "-sha256", "-hmac", vector["secret"], str(message)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert fields.split("= ")[1].strip() == vector["signature"], vector["name"]


def signed_command() -> tuple[dict[str, Any], str]:
    vector = VECTORS[0]
    extra = {"signature": vector["signature"], "sig_version": "HMAC-SHA256-CANONICAL-JSON-V1", "sig_encoding": "hex"}
    return {**vector["command"], **extra, "attempt": 1, "lease_until": "2026-01-18T10:01:00Z"}, vector["secret"]


def test_signed_command_is_verified() -> None:
    command, secret = signed_command()
    assert verify_command(command, secret) == (True, "the signature holds")
    assert verify_command({**command, "attempt": 99}, secret).is_valid


@pytest.mark.parametrize("field", SIGNED_FIELDS)
def test_changed_or_missing_signed_field_is_refused(field: str) -> None:
    command, secret = signed_command()
    assert not verify_command({**command, field: "other"}, secret).is_valid
    del command[field]
    verdict = verify_command(command, secret)
    assert not verdict.is_valid
    assert field in verdict.reason


def test_wrong_or_missing_signature_is_refused() -> None:
    command, secret = signed_command()
    assert not verify_command(command, "00" * 32).is_valid
    assert "no signature" in verify_command({**command, "signature": None}, secret).reason
    assert "sig_version" in verify_command({**command, "sig_version": "V0"}, secret).reason
    assert "sig_encoding" in verify_command({**command, "sig_encoding": "base64"}, secret).reason
    assert not verify_command({**command, "params": {"a": {1, 2}}}, secret).is_valid
    assert not verify_command({**command, "nonce": "\ud800"}, secret).is_valid


def test_ack_signature_covers_everything_but_itself() -> None:
    fields = {"status": "succeeded", "after_snapshot": {"b": 100.5, "a": "é"}}
    signature = signature_of("s", reference_json(fields))
    body = json.dumps({"signature": signature, **fields}).encode()
    assert is_ack_signature_valid(body, ["s"])
    assert is_ack_signature_valid(body, ["other", "s"])
    assert not is_ack_signature_valid(body, ["other"])
    deep = b'{"signature":"00","a":' + b"[" * 3000 + b"]" * 3000 + b"}"
    assert not is_ack_signature_valid(deep, ["s"])
    assert not is_ack_signature_valid(json.dumps({"signature": signature, **fields, "x": 1}).encode(), ["s"])


@pytest.mark.parametrize("number", ["1e-07", "1e+16", "65.0", "-0.0", "1.5e+300"])
def test_ack_signature_covers_floats_as_the_contract_writes_them(number: str) -> None:
    """The collector's text is the canonical form itself, which the server has to arrive at again."""
    text = f'{{"after_snapshot":{{"hashrate":{number}}},"status":"succeeded"}}'
    signature = signature_of("s", text.encode())
    body = f'{{"signature":"{signature}",{text[1:]}'
    assert is_ack_signature_valid(body.encode(), ["s"])
