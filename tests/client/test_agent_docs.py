"""Check the page and the unit of the device agent: the tutorial runs unchanged, lists are those of the program."""

import configparser
import re
import shlex
from pathlib import Path

import pytest
from restante_client.agent import main
from restante_client.agent.config import markdown
from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.program import DeviceProgram
from restante_client.agent.program import ExitCode

from tests.documented import DOCS, REPOSITORY, check_examples

PAGE = DOCS / "agent-device.md"
UNIT = REPOSITORY / "deploy" / "systemd" / "restante-agent-device.service"


@pytest.mark.slow
def test_tutorial_produces_the_documented_output(tmp_path: Path) -> None:
    every_second = ("--poll-interval-seconds", "1", "--boost-poll-interval-seconds", "1")
    check_examples(tmp_path, PAGE, [], *every_second)


def test_reference_is_the_one_of_the_program() -> None:
    assert PAGE.read_text().endswith(markdown(DeviceConfig)), "run `restante-agent device config`"


def test_every_command_and_exit_code_is_documented() -> None:
    text = PAGE.read_text()
    commands = {"run", "status", "doctor", "config", *DeviceProgram.commands}
    assert set(re.findall(r"^\| `restante-agent device (\w+)` \|", text, re.MULTILINE)) == commands
    assert {int(code) for code in re.findall(r"^\| (\d) \|", text, re.MULTILINE)} == set(ExitCode)


def test_unit_starts_the_agent_with_its_defaults() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "restante-agent"
    assert arguments == ["device", "run"]
    assert Path("/var/lib") / service["StateDirectory"] == main.STATE_FOLDER / "device"
    codes = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes == {ExitCode.wrong_usage, ExitCode.needs_person}
    assert (service["ProtectSystem"], service["NoNewPrivileges"], service["StateDirectoryMode"]) == (
        "strict",
        "yes",
        "0700",
    )
