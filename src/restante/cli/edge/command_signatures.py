"""`restante command verify`: checks the signatures of commands, on this machine or by the server."""

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, identity, print_list
from restante.cli.remote.arguments import collector_id
from restante.cli.remote.common_options import DataOption, JsonOption, ProfileOption, ServerOption
from restante.cli.remote.noun import Call, Item, run_remotely
from restante.commands.dispatch.signing import verify_command
from restante.core.errors import BadInput


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A command or the response of a poll, as JSON; - for stdin.")
    ],
    collector: Annotated[
        str | None,
        typer.Option("--collector", metavar="COLLECTOR", help="The collector whose secret signed it: id or name."),
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", metavar="FILE", help="A file that contains the secret.")
    ] = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Check the signatures of commands; exit code 1 if one is invalid.

    With --secret-file no server is needed. With --collector the server checks them, and records it.
    """
    if (collector is None) == (secret_file is None):
        raise typer.BadParameter("give --collector or --secret-file")
    commands = commands_in(file)
    if secret_file is not None:
        secret = secret_file.read_text("utf-8").strip()
        print_verdicts([_verdict(command, secret) for command in commands], json)
        return
    options = {"server": server, "profile": profile, "data": data, "json": json, "utc": True}
    run_remotely(
        lambda call: _verdicts_of_server(call, collector or "", commands),
        lambda _, verdicts: print_verdicts(verdicts, json),
        options,
        {"device_id": "--collector"},
    )


def _verdicts_of_server(call: Call, collector: str, commands: list[dict[str, Any]]) -> Any:
    return call.client.collectors.verify(collector_id(call, collector), commands=commands)["items"]


def _verdict(command: dict[str, Any], secret: str) -> Item:
    verdict = verify_command(command, secret)
    return {"command_id": command.get("command_id"), "valid": verdict.is_valid, "reason": verdict.reason}


def print_verdicts(verdicts: list[Any], as_json: bool) -> None:
    columns: Columns = {
        "command": identity("command_id"),
        "signature": Column(lambda verdict: "valid" if verdict["valid"] else "INVALID"),
        "why": "reason",
    }
    page = {"items": verdicts, "next": None}
    print_list(page, columns, as_json=as_json, is_utc=True, when_empty="No commands.")
    if not all(verdict["valid"] for verdict in verdicts):
        raise typer.Exit(1)


def commands_in(file: Path) -> list[dict[str, Any]]:
    """The commands of a file. Duplicate keys are refused: the collector may have read the other value."""
    text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text("utf-8")
    try:
        value = json_text.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadInput("FILE", f"JSON ({error})") from None
    if isinstance(value, dict) and isinstance(value.get("commands"), list):
        value = value["commands"]
    commands = value if isinstance(value, list) else [value]
    if not all(isinstance(command, dict) for command in commands):
        raise BadInput("FILE", "a command, a list of commands, or the response of a poll")
    return commands


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object contains a key twice")
    return found
