import subprocess
import sys

import pytest

from restante.cli.lazy_commands import LazyCommands
from restante.cli.main import TABLE


@pytest.mark.parametrize("name", TABLE)
def test_summary_in_table_matches_help_of_command(name: str) -> None:
    command = LazyCommands(TABLE)[name]
    assert command.name == name
    assert (command.help or "").startswith(TABLE[name].summary.removesuffix("."))


def test_unknown_name_loads_nothing() -> None:
    commands = LazyCommands(TABLE)
    assert commands.get("nothing") is None
    assert len(commands) == len(TABLE)


def test_command_is_loaded_once() -> None:
    commands = LazyCommands(TABLE)
    assert commands["device"] is commands["device"]


@pytest.mark.parametrize("args", ["--help", "--version"])
def test_help_imports_no_command(args: str) -> None:
    code = (
        "import sys; sys.argv = ['restante', sys.argv[1]]\n"
        "from restante.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(bool({'structlog', 'sqlite3', 'restante.server.config.settings', 'rich'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code, args], capture_output=True, timeout=60).returncode == 0
