"""The entry point of `restante-agent`: arguments, configuration, log, exit code.

Only the program that is started is imported: `restante-agent device` must stay small in memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from restante_client.agent import config as configuration
from restante_client.agent import logs
from restante_client.agent.config import ConfigError
from restante_client.agent.program import Check, Command, Context, ExitCode, Program, ProgramError
from restante_client.agent.stopping import Stopped, Stopper
from restante_client.errors import (
    EnrolmentRefused,
    Forbidden,
    RestanteError,
    SessionEnded,
    StateError,
    Unavailable,
    Unreachable,
)

CONFIG_FOLDER = Path("/etc/restante-agent")
STATE_FOLDER = Path("/var/lib/restante-agent")


class ProgramEntry(NamedTuple):
    module: str
    name: str
    summary: str


# One entry for each program: its name, and the module that is imported when it is started.
PROGRAMS = {
    "device": ProgramEntry(
        "restante_client.agent.device.program",
        "DeviceProgram",
        "install what the server says: files, certificates, trusted authorities",
    ),
    "collector": ProgramEntry(
        "restante_client.agent.collector.program",
        "CollectorProgram",
        "carry out edge commands on the miners of a site, and report what they measure",
    ),
    "receiver": ProgramEntry(
        "restante_client.agent.receiver.program",
        "ReceiverProgram",
        "receive event tokens and deliver them to a program, a webhook or a table",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program that the arguments name, and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] not in PROGRAMS:
        _overview().parse_args(arguments)
        return int(ExitCode.wrong_usage)
    name = arguments[0]
    kind: type[Program[Any]] = _load(PROGRAMS[name])
    parsed = _parser(name, kind).parse_args(arguments[1:])
    try:
        return int(_execute(name, kind, parsed))
    except Stopped:
        return int(ExitCode.done if parsed.command == "run" else ExitCode.failed)
    except (ConfigError, ProgramError, RestanteError) as error:
        sys.stderr.write(f"restante-agent {name}: {error}\n")
        return int(exit_code_of(error))


def exit_code_of(error: Exception) -> ExitCode:
    if isinstance(error, ProgramError):
        return error.code
    if isinstance(error, ConfigError):
        return ExitCode.wrong_usage
    if isinstance(error, Forbidden) and not error.code:
        # Not an answer of the server, but of something between: it may pass.
        return ExitCode.unreachable
    if isinstance(error, (SessionEnded, Forbidden, EnrolmentRefused)):
        return ExitCode.needs_person
    if isinstance(error, (Unreachable, Unavailable)):
        return ExitCode.unreachable
    return ExitCode.wrong_state if isinstance(error, StateError) else ExitCode.failed


def _execute(name: str, kind: type[Program[Any]], parsed: argparse.Namespace) -> ExitCode:
    if parsed.command == "config":
        sys.stdout.write(configuration.markdown(kind.config_type))
        return ExitCode.done
    config = configuration.load(parsed.config, kind.config_type)
    state = parsed.state or (Path(config.state) if config.state else STATE_FOLDER / name)
    log = logs.set_up(name, parsed.log_level or config.log_level)
    stopper = Stopper()
    program = kind(Context(config, parsed.config, state, log, stopper))
    if parsed.command == "status":
        return _show_status(program.status(), is_json=parsed.json)
    if parsed.command == "doctor":
        return _show_checks(list(program.doctor()), is_json=parsed.json)
    with stopper.handling_signals():
        if parsed.command == "run":
            with program.running():
                return program.run(is_once=parsed.once)
        return kind.commands[parsed.command].run(program, parsed)


def _load(entry: ProgramEntry) -> Any:
    return getattr(importlib.import_module(entry.module), entry.name)


def _overview() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="restante-agent", description="The programs of Restante's client side.")
    programs = parser.add_subparsers(metavar="PROGRAM", required=True)
    for name, entry in PROGRAMS.items():
        programs.add_parser(name, help=entry.summary)
    return parser


def _parser(name: str, kind: type[Program[Any]]) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config", type=Path, metavar="FILE", default=CONFIG_FOLDER / f"{name}.toml", help="default: %(default)s"
    )
    common.add_argument("--state", type=Path, metavar="DIR", help="the state folder, instead of the configured one")
    common.add_argument("--log-level", choices=["debug", "info", "warning", "error"])
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print JSON")
    parser = argparse.ArgumentParser(prog=f"restante-agent {name}", description=PROGRAMS[name].summary)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", parents=[common], help="work until SIGTERM or SIGINT")
    run.add_argument("--once", action="store_true", help="do what is due now, then end")
    commands.add_parser("status", parents=[common, as_json], help="show the state on disk")
    commands.add_parser("doctor", parents=[common, as_json], help="check configuration, state, server and machine")
    commands.add_parser("config", help="print the reference of the configuration file")
    for extra, command in kind.commands.items():
        _add_command(commands, common, extra, command)
    return parser


def _add_command(commands: Any, common: argparse.ArgumentParser, name: str, command: Command) -> None:
    command.add_arguments(commands.add_parser(name, parents=[common], help=command.summary))


def _show_status(status: dict[str, Any], *, is_json: bool) -> ExitCode:
    if is_json:
        sys.stdout.write(json.dumps(status, ensure_ascii=False, default=str) + "\n")
        return ExitCode.done
    width = max((len(name) for name in status), default=0)
    for name, value in status.items():
        if isinstance(value, list):
            sys.stdout.write(f"{name}:\n" + "".join(f"  {_shown(each)}\n" for each in value))
        else:
            sys.stdout.write(f"{name + ':':<{width + 2}}{_shown(value)}\n")
    return ExitCode.done


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def _show_checks(checks: Sequence[Check], *, is_json: bool) -> ExitCode:
    for check in checks:
        if is_json:
            found = {"check": check.name, "ok": check.is_ok, "found": check.found, "advice": check.advice}
            sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
            continue
        sys.stdout.write(f"{'ok' if check.is_ok else 'FAILED':<7} {check.name}: {check.found}\n")
        if check.advice and not check.is_ok:
            sys.stdout.write(f"        {check.advice}\n")
    return ExitCode.done if all(check.is_ok for check in checks) else ExitCode.failed


if __name__ == "__main__":
    sys.exit(main())
