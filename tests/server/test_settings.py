import dataclasses

import pytest

from restante.server.settings import DECLARED, Declaration, Settings

UNITS = ("_seconds", "_sec", "_milliseconds", "_minutes", "_hours", "_days", "_max", "_per_second")


def test_every_default_is_what_its_kind_reads() -> None:
    for declaration in DECLARED.values():
        if declaration.default is not None and declaration.name not in ("issuers", "authorization_servers"):
            assert declaration.kind.read(str(declaration.default)) == declaration.default, declaration.name


def test_every_setting_says_what_it_means() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == list(DECLARED)
    for declaration in DECLARED.values():
        assert declaration.meaning.endswith("."), declaration.name
        assert declaration.kind.expected, declaration.name


def test_a_name_gives_variable_and_flag() -> None:
    assert DECLARED["poll_burst"].variable == "RESTANTE_POLL_BURST"
    assert DECLARED["poll_burst"].flag == "--poll-burst"


def test_a_secret_has_no_flag_and_is_not_shown() -> None:
    secret = DECLARED["master_key"]
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
def test_shows_defaults_as_they_are_written(name: str, shown: str) -> None:
    declaration: Declaration = DECLARED[name]
    assert declaration.shown(declaration.default) == shown


def test_time_is_never_without_a_unit() -> None:
    for name, declaration in DECLARED.items():
        if any(word in name for word in ("interval", "deadline", "lease", "window", "alive", "spread", "shutdown")):
            assert name.endswith(UNITS), declaration.name
