import dataclasses

import pytest

from restante.server.config.settings import DECLARATIONS, Declaration, Settings

UNITS = ("_seconds", "_sec", "_milliseconds", "_minutes", "_hours", "_days", "_max", "_per_second")


def test_every_default_is_parsed_by_its_type() -> None:
    for declaration in DECLARATIONS.values():
        if declaration.default is not None and declaration.name not in ("issuers", "authorization_servers"):
            assert declaration.type.parse(str(declaration.default)) == declaration.default, declaration.name


def test_every_setting_has_a_meaning() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == list(DECLARATIONS)
    for declaration in DECLARATIONS.values():
        assert declaration.meaning.endswith("."), declaration.name
        assert declaration.type.expected, declaration.name


def test_variable_and_flag_are_made_from_name() -> None:
    assert DECLARATIONS["poll_burst"].variable == "RESTANTE_POLL_BURST"
    assert DECLARATIONS["poll_burst"].flag == "--poll-burst"


def test_secret_has_no_flag_and_is_not_shown() -> None:
    secret = DECLARATIONS["master_key"]
    assert secret.flag is None
    assert secret.shown("ab" * 32) == "(hidden)"
    assert secret.shown(None) == ""
    assert "ababab" not in repr(Settings(master_key="ab" * 32))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("data", "data"),
        ("listen", "127.0.0.1:8080"),
        ("direct_signals", "false"),
        ("issuers", ""),
        ("outbox_interval_seconds", "5"),
        ("shutdown_seconds", "1.5"),
        ("poll_burst", "20"),
        ("command_rate_limits", "MINER_RESTART=5/300, DEVICE_REBOOT=5/300, HASHING_DISABLE=10/300, default=20/60"),
        ("commands_needing_approval", ""),
    ],
)
def test_defaults_are_shown_as_they_are_written(name: str, shown: str) -> None:
    declaration: Declaration = DECLARATIONS[name]
    assert declaration.shown(declaration.default) == shown


def test_names_of_durations_end_with_a_unit() -> None:
    for name, declaration in DECLARATIONS.items():
        if any(word in name for word in ("interval", "deadline", "lease", "window", "alive", "spread", "shutdown")):
            assert name.endswith(UNITS), declaration.name
