import json
from pathlib import Path
from typing import Any

import pytest

from restante.commands.dispatch.signing import sign
from restante.core.commands.canonical import SIG_ENCODING, SIG_VERSION
from tests.cli.conftest import Restante
from tests.commands.signature_vectors import EXAMPLE

SECRET = "5" * 64


def signed(secret: str = SECRET, **changed: Any) -> dict[str, Any]:
    """The example of the specification, signed."""
    part = dict(EXAMPLE)
    signature = {"signature": sign(part, secret), "sig_version": SIG_VERSION, "sig_encoding": SIG_ENCODING}
    return {**part, **signature, "attempt": 1, **changed}


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET + "\n")
    return str(path)


def polled(tmp_path: Path, content: Any) -> str:
    path = tmp_path / "polled.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.mark.parametrize("wrapped", [lambda c: c, lambda c: [c], lambda c: {"commands": [c], "server_time": "x"}])
def test_valid_signature_is_accepted(restante: Restante, tmp_path: Path, secret_file: str, wrapped: Any) -> None:
    file = polled(tmp_path, wrapped(signed()))
    assert restante.json("commands", "verify", file, "--secret-file", secret_file) == [
        {"command_id": "cmd_abc123", "valid": True, "reason": "the signature holds"}
    ]
    assert "valid" in restante.ok("commands", "verify", file, "--secret-file", secret_file)


def test_command_is_read_from_stdin(restante: Restante, secret_file: str) -> None:
    assert "valid" in restante.ok("commands", "verify", "-", "--secret-file", secret_file, stdin=json.dumps(signed()))


@pytest.mark.parametrize("changed", [{"priority": 1}, {"params": {}}, {"signature": None}, {"signature": "0" * 64}])
def test_invalid_signature_exits_with_1(
    restante: Restante, tmp_path: Path, secret_file: str, changed: dict[str, Any]
) -> None:
    file = polled(tmp_path, [signed(), signed(**changed)])
    result = restante("commands", "verify", file, "--secret-file", secret_file)
    assert result.exit_code == 1
    assert "INVALID" in result.stdout
    result = restante("commands", "verify", file, "--secret-file", secret_file, "--json")
    assert [each["valid"] for each in json.loads(result.stdout)] == [True, False]


def test_collectors_current_and_overlapping_secrets_verify(restante: Restante, tmp_path: Path) -> None:
    restante.ok("site", "add", "North")
    secret = restante.json("collector", "add", "1", "roof")["hmac_secret"]
    file = polled(tmp_path, signed(secret))
    assert restante.json("commands", "verify", file, "--collector", "1")[0]["valid"]
    restante.ok("collector", "rotate", "1")
    assert restante.json("commands", "verify", file, "--collector", "1")[0]["valid"]
    restante.ok("collector", "rotate", "1", "--overlap", "0")
    assert restante("commands", "verify", file, "--collector", "1").exit_code == 1
    events = [row["event"] for row in restante.json("audit", "list", "--event", "collector.secret_read")["items"]]
    assert len(events) == 3


@pytest.mark.parametrize("content", ["{", "1", '"text"', "[1]", '{"a": 1, "a": 2}', "[" * 100_000])
def test_content_that_is_no_command_is_refused(
    restante: Restante, tmp_path: Path, secret_file: str, content: str
) -> None:
    message = restante.error_line("commands", "verify", polled(tmp_path, content), "--secret-file", secret_file)
    assert message.startswith("FILE: expected")


def test_exactly_one_secret_source_is_required(restante: Restante, tmp_path: Path, secret_file: str) -> None:
    file = polled(tmp_path, signed())
    assert restante("commands", "verify", file).exit_code == 2
    assert restante("commands", "verify", file, "--secret-file", secret_file, "--collector", "1").exit_code == 2
    assert restante.error_line("commands", "verify", file, "--collector", "9") == "there is no such collector"
    assert "No such file" in restante.error_line("commands", "verify", "absent.json", "--secret-file", secret_file)
