import subprocess
import sys

import pytest

from restante.cli.loading import LoadedCommands
from restante.cli.main import TABLE


@pytest.mark.parametrize("name", TABLE)
def test_the_table_says_what_the_command_says_of_itself(name: str) -> None:
    command = LoadedCommands(TABLE)[name]
    assert command.name == name
    assert (command.help or "").startswith(TABLE[name].summary.removesuffix("."))


def test_an_unknown_name_loads_nothing() -> None:
    commands = LoadedCommands(TABLE)
    assert commands.get("nothing") is None
    assert len(commands) == len(TABLE)


def test_each_is_loaded_once() -> None:
    commands = LoadedCommands(TABLE)
    assert commands["device"] is commands["device"]


@pytest.mark.parametrize("args", ["--help", "--version"])
def test_help_waits_for_none_of_them(args: str) -> None:
    code = (
        "import sys; sys.argv = ['restante', sys.argv[1]]\n"
        "from restante.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'structlog', 'sqlite3', 'restante.server.settings', 'rich'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code, args], capture_output=True, timeout=60).returncode == 0
