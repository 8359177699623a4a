from collections.abc import Mapping

import typer
from typer.testing import CliRunner

from restante.cli.options import JsonOption
from restante.cli.server.setting_flags import FLAGGED, with_setting_flags
from restante.server.config.setting_types import Boolean
from restante.server.config.settings import DECLARATIONS

seen: list[tuple[Mapping[str, object], bool]] = []
app = typer.Typer(rich_markup_mode=None)


@app.command()
@with_setting_flags
def command(flags: Mapping[str, object], json: JsonOption = False) -> None:
    seen.append((flags, json))


def given(*args: str) -> tuple[dict[str, object], bool]:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    flags, json = seen.pop()
    return {name: value for name, value in flags.items() if value is not None}, json


def test_every_setting_but_secrets_has_a_flag() -> None:
    assert set(DECLARATIONS) - set(FLAGGED) == {"master_key", "master_key_next", "metrics_token"}
    for name, declaration in FLAGGED.items():
        if not isinstance(declaration.type, Boolean):
            is_repeatable = getattr(declaration.type, "is_repeatable", False)
            assert given(str(declaration.flag), "x") == ({name: ["x"] if is_repeatable else "x"}, False)


def test_repeatable_flag_collects_values() -> None:
    assert given("--outbox", "x", "--outbox", "y")[0] == {"outbox": ["x", "y"]}


def test_boolean_setting_is_a_pair_of_flags() -> None:
    assert given("--direct-signals")[0] == {"direct_signals": True}
    assert given("--no-direct-signals")[0] == {"direct_signals": False}


def test_omitted_flags_are_none_and_own_options_are_kept() -> None:
    assert given("--json") == ({}, True)


def test_help_shows_meaning_and_default() -> None:
    printed = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert f"--poll-burst VALUE {DECLARATIONS['poll_burst'].meaning} [default: 20]" in printed
