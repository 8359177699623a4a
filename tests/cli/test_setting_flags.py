from collections.abc import Mapping

import typer
from typer.testing import CliRunner

from restante.cli.options import JsonOption
from restante.cli.setting_flags import FLAGGED, with_setting_flags
from restante.server.setting_kinds import YesOrNo
from restante.server.settings import DECLARED

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
    assert set(DECLARED) - set(FLAGGED) == {"master_key"}
    for name, declaration in FLAGGED.items():
        if not isinstance(declaration.kind, YesOrNo):
            is_repeatable = getattr(declaration.kind, "is_repeatable", False)
            assert given(str(declaration.flag), "x") == ({name: ["x"] if is_repeatable else "x"}, False)


def test_a_repeatable_flag_collects_what_it_is_given() -> None:
    assert given("--outbox", "x", "--outbox", "y")[0] == {"outbox": ["x", "y"]}


def test_a_yes_or_no_is_a_pair_of_flags() -> None:
    assert given("--direct-signals")[0] == {"direct_signals": True}
    assert given("--no-direct-signals")[0] == {"direct_signals": False}


def test_what_was_not_given_is_not_there_and_the_commands_own_options_are() -> None:
    assert given("--json") == ({}, True)


def test_help_tells_meaning_and_default() -> None:
    printed = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert f"--poll-burst VALUE {DECLARED['poll_burst'].meaning} [default: 20]" in printed
