"""Attack: read secrets from the log, or as another user of the machine from the list of processes."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from restante.events.clients.clients import SECRET_PREFIX
from restante.identity import api_keys
from restante.identity.clients import client_tokens, collector_tokens
from restante.identity.devices import refresh_key
from restante.server.config.settings_sources import SettingsError, load, passwords_in_flags
from restante.server.monitoring import logs
from tests.cli.conftest import Restante

PREFIXES = (
    api_keys.PREFIX,
    collector_tokens.PREFIX,
    client_tokens.PREFIX,
    refresh_key.PREFIX,
    SECRET_PREFIX,
)
RANDOM = "Ab3_-" * 8 + "x7Q"
SECRETS = [
    *(prefix + RANDOM for prefix in PREFIXES),
    "postgresql://ada:opensesame@db.example/restante",
    "redis://:opensesame@redis.example:6379/0",
    "https://ada:open/sesame@hook.example/path",
]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    logs.configure("json", "debug", stream)
    yield stream
    structlog.reset_defaults()
    logging.basicConfig(handlers=before[0], level=before[1], force=True)


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_of_all_kinds_are_redacted_wherever_they_are_logged(lines: io.StringIO, secret: str) -> None:
    log = structlog.get_logger()
    log.info(f"connecting with {secret} failed", error=f"'{secret}' refused", detail={"inner": [secret]})
    logging.getLogger("some.library").warning("request to %s", secret)
    try:
        raise RuntimeError(f"cannot use {secret}")
    except RuntimeError:
        log.exception("failed")
    written = lines.getvalue()
    assert len(written.splitlines()) == 3
    for part in (secret, "opensesame", "open/sesame", RANDOM):
        assert part not in written
    assert all(json.loads(line) for line in written.splitlines())


def test_secret_settings_are_read_from_files(tmp_path: Path) -> None:
    url, key = tmp_path / "database", tmp_path / "key"
    url.write_text("postgresql://ada:opensesame@db.example/restante\n")
    key.write_text("ab" * 32)
    settings = load(
        {"database": f"@{url}", "outbox": [f"@{url}"], "redis_url": None}, {"RESTANTE_MASTER_KEY": f"@{key}"}
    )
    assert settings.database is not None
    assert settings.database.url == "postgresql://ada:opensesame@db.example/restante"
    assert len(settings.outbox) == 1
    assert settings.master_key == "ab" * 32


@pytest.mark.parametrize("name", ["missing", ""])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"database: cannot read {tmp_path / name}"):
        load({"database": f"@{tmp_path / name}"}, {})


def test_wrong_content_of_a_file_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("mysql://ada:opensesame@db/x")
    with pytest.raises(SettingsError) as raised:
        load({"redis_url": f"@{tmp_path / 'url'}"}, {})
    assert "opensesame" not in str(raised.value)


def test_flags_with_passwords_are_recognised() -> None:
    flags = {
        "database": "postgresql://ada:opensesame@db/x",
        "redis_url": "@/run/secrets/redis",
        "outbox": ["mysql://ada@db/x", "mysql://ada:opensesame@db/y"],
        "listen": "127.0.0.1:1",
        "audit_anchor": None,
    }
    assert passwords_in_flags(flags) == ["--database", "--outbox"]


def test_command_line_takes_the_database_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    for variable in [name for name in os.environ if name.startswith("RESTANTE_")]:
        monkeypatch.delenv(variable)
    (tmp_path / "url").write_text(postgres_url)
    restante = Restante(tmp_path / "data")
    restante.ok("init", "--database", f"@{tmp_path / 'url'}")
    assert not (tmp_path / "data" / "restante.db").exists()
