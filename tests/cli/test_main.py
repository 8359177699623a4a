"""The command line as a whole: how it reports errors, and that every command is documented."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from restante import __version__
from restante.cli.main import app
from restante.cli.server.setting_flags import FLAGGED
from tests.cli.conftest import Restante

DOCS = Path(__file__).parents[2] / "docs"
OPTIONS_OF_ALL = {"--help", "--data", "--database", "--json", "--server", "--profile", "--utc"}
OPTIONS_OF_LISTS = {"--limit", "--after", "--count", "--watch", "--since", "--yes", "--dry-run"}
# Commands about the profiles of the person, and one that prints SQL, need no data folder.
WITHOUT_DATA = {"login", "logout", "profile list", "profile use", "outbox schema", "copy"}


def commands() -> Iterator[tuple[str, set[str]]]:
    """Every command's full name and its options."""
    pending = [("restante", get_command(app))]
    while pending:
        name, command = pending.pop()
        children = getattr(command, "commands", {})
        pending += [(f"{name} {child}", inner) for child, inner in children.items()]
        if not children:
            yield name, {opt for param in command.params for opt in param.opts if opt.startswith("--")}


COMMANDS = dict(commands())


def section(page: str, command: str) -> str:
    heading = f"# `{command}`\n"
    assert heading in page, f"{command} is not documented"
    return page.split(heading, 1)[1].split("\n#", 1)[0]


def test_every_noun_has_a_list() -> None:
    nouns = {name.split()[1] for name in COMMANDS if name.count(" ") == 2}
    without_list = {noun for noun in nouns if f"restante {noun} list" not in COMMANDS}
    # There is one poll boost; bulk actions are listed as jobs; migrations have a status.
    assert without_list == {"poll-boost", "bulk", "migrate"}
    assert {"group", "job", "rollout", "device", "command", "client", "event"} <= nouns
    assert {f"restante {name}" for name in ("serve", "init", "settings", "doctor", "login", "status")} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_documented(command: str) -> None:
    text = section((DOCS / "commands.md").read_text(encoding="utf-8"), command)
    settings = {declaration.flag for declaration in FLAGGED.values()} if command == "restante serve" else set()
    for option in COMMANDS[command] - OPTIONS_OF_ALL - OPTIONS_OF_LISTS - settings:
        assert option in text, f"{option} of {command} is not documented"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_data_json_and_help(command: str) -> None:
    name = command.removeprefix("restante ")
    required = {"--json"} if name not in ("serve", "demo", "outbox schema") else set()
    required |= set() if name in WITHOUT_DATA else {"--data"}
    assert required <= COMMANDS[command]
    result = CliRunner().invoke(app, [*command.split()[1:], "-h"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    assert "9223372036854775807" not in result.stdout
    assert not re.search(r"\{|<(str|int|float|bool|path|file|directory|list)\b[^>]*>", result.stdout), "not plain words"


def test_usage_shows_arguments_as_a_person_writes_them() -> None:
    def usage(*command: str) -> str:
        return CliRunner().invoke(app, [*command, "-h"]).stdout.splitlines()[0]

    assert usage("command", "create").endswith("command create [OPTIONS] SITE TYPE")
    assert usage("device", "tag").endswith("device tag [OPTIONS] DEVICE TAG...")


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"restante {__version__}\n")


def test_wrong_usage_exits_with_2(restante: Restante) -> None:
    for args in (["nothing"], ["user", "list", "--nothing"], ["device", "show"]):
        result = restante(*args)
        assert result.exit_code == 2
        assert result.stderr


def test_each_invalid_setting_is_printed_on_one_line(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_POLL_BURST", "many")
    monkeypatch.setenv("RESTANTE_LISTNE", "x")
    result = restante("init")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("restante: ") for line in lines)


def test_variables_of_the_command_line_are_no_unknown_settings(
    restante: Restante, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESTANTE_SERVER", "https://restante.example.com")
    monkeypatch.setenv("RESTANTE_API_KEY", "rk_x")
    restante.ok("init")


def test_file_in_place_of_folder_is_named(restante: Restante) -> None:
    restante.data.write_text("not a folder")
    assert str(restante.data) in restante.error_line("init")
    assert str(restante.data) in restante.error_line("site", "list")


def test_file_that_is_no_database_is_named(restante: Restante) -> None:
    restante.data.mkdir()
    (restante.data / "restante.db").write_text("not a database " * 100)
    message = restante.error_line("keys", "list")
    assert str(restante.data / "restante.db") in message
    assert "not a database" in message


def test_newer_database_is_refused(restante: Restante) -> None:
    restante.ok("init")
    with sqlite3.connect(restante.data / "restante.db") as driver:
        driver.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 0)")
    driver.close()
    assert "use a newer version" in restante.error_line("keys", "list")


def test_input_that_is_not_utf_8_is_refused(restante: Restante) -> None:
    add = ("init", "--password-stdin")
    message = restante.error_line(*add, "--user", "a@example.com", stdin=b"\xff" * 12)
    assert message == "the input is not valid UTF-8"
    message = restante.error_line(*add, "--user", "a\udcff@example.com", stdin="long enough")
    assert message == "the input is not valid UTF-8"


def test_unexpected_exception_is_not_hidden(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.identity.people.users.list_all", lambda conn: 1 / 0)
    assert isinstance(restante("init", "--key", "x").exception, ZeroDivisionError)
