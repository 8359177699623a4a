"""The published vectors, and verifying what was signed."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from restante.commands.params import parse_params
from restante.commands.signing import is_ack_signed, sign, verify_signed
from restante.core.canonical import SIGNED_FIELDS, canonical, reference, signature_of, signed_part
from tests.commands.vectors import VECTORS_PATH, made_vectors

VECTORS: list[dict[str, Any]] = json.loads(VECTORS_PATH.read_text(encoding="utf-8"))["vectors"]
NAMES = [vector["name"] for vector in VECTORS]


def test_the_published_vectors_are_the_contracts() -> None:
    assert json.loads(VECTORS_PATH.read_text(encoding="utf-8")) == made_vectors()


def test_there_are_enough_of_them() -> None:
    assert len(VECTORS) >= 30
    assert len(set(NAMES)) == len(NAMES)
    assert all(len(vector["secret"]) == 64 for vector in VECTORS)


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_we_sign_as_published(vector: dict[str, Any]) -> None:
    command = vector["command"]
    assert parse_params(reference(command["params"])) == command["params"]
    part = signed_part(command)
    assert canonical(part) == vector["canonical_json"].encode() == bytes.fromhex(vector["canonical_hex"])
    assert sign(part, vector["secret"]) == vector["signature"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_signs_as_published(tmp_path: Path) -> None:
    for vector in VECTORS:
        message = tmp_path / "message"
        message.write_bytes(bytes.fromhex(vector["canonical_hex"]))
        said = subprocess.run(
            ["openssl", "dgst", "-sha256", "-hmac", vector["secret"], str(message)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert said.split("= ")[1].strip() == vector["signature"], vector["name"]


def signed_command() -> tuple[dict[str, Any], str]:
    vector = VECTORS[0]
    extra = {"signature": vector["signature"], "sig_version": "HMAC-SHA256-CANONICAL-JSON-V1", "sig_encoding": "hex"}
    return {**vector["command"], **extra, "attempt": 1, "lease_until": "2026-01-18T10:01:00Z"}, vector["secret"]


def test_a_command_from_outside_is_verified() -> None:
    command, secret = signed_command()
    assert verify_signed(command, secret) == (True, "the signature holds")
    assert verify_signed({**command, "attempt": 99}, secret).is_valid


@pytest.mark.parametrize("field", SIGNED_FIELDS)
def test_every_signed_field_counts(field: str) -> None:
    command, secret = signed_command()
    assert not verify_signed({**command, field: "other"}, secret).is_valid
    del command[field]
    verdict = verify_signed(command, secret)
    assert not verdict.is_valid
    assert field in verdict.reason


def test_what_is_no_signature_is_refused() -> None:
    command, secret = signed_command()
    assert not verify_signed(command, "00" * 32).is_valid
    assert "no signature" in verify_signed({**command, "signature": None}, secret).reason
    assert "sig_version" in verify_signed({**command, "sig_version": "V0"}, secret).reason
    assert "sig_encoding" in verify_signed({**command, "sig_encoding": "base64"}, secret).reason
    assert not verify_signed({**command, "params": {"a": {1, 2}}}, secret).is_valid
    assert not verify_signed({**command, "nonce": "\ud800"}, secret).is_valid


def test_an_ack_is_signed_over_all_but_the_signature() -> None:
    said = {"status": "succeeded", "after_snapshot": {"b": 100.5, "a": "é"}}
    signature = signature_of("s", reference(said))
    body = json.dumps({"signature": signature, **said}).encode()
    assert is_ack_signed(body, ["s"])
    assert is_ack_signed(body, ["other", "s"])
    assert not is_ack_signed(body, ["other"])
    deep = b'{"signature":"00","a":' + b"[" * 3000 + b"]" * 3000 + b"}"
    assert not is_ack_signed(deep, ["s"])
    assert not is_ack_signed(json.dumps({"signature": signature, **said, "x": 1}).encode(), ["s"])
