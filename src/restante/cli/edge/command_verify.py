"""`restante commands verify`: check the signatures of commands, without a server."""

import json as json_text
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.actor import cli_actor
from restante.cli.edge.context import open_edge
from restante.cli.options import ID_MAX, DataOption, JsonOption
from restante.cli.output import Columns, print_items
from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.dispatch.signing import verify_command
from restante.commands.sites import collectors
from restante.commands.sites.collectors import SecretBox
from restante.core.errors import BadInput
from restante.database.connection import Connection

_COLUMNS: Columns = {
    "command": lambda verdict: verdict["command_id"],
    "signature": lambda verdict: "valid" if verdict["valid"] else "INVALID",
    "why": lambda verdict: verdict["reason"],
}


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A command or the response of a poll, as JSON; - for stdin.")
    ],
    device: Annotated[
        int | None, typer.Option("--collector", min=1, max=ID_MAX, help="The collector whose secret signed it.")
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", metavar="FILE", help="A file that contains the secret.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Check the signatures of commands; exit code 1 if one is invalid."""
    if (device is None) == (secret_file is None):
        raise typer.BadParameter("give --collector or --secret-file")
    commands = _commands_in(_text_of(file))
    secrets = [secret_file.read_text("utf-8").strip()] if secret_file else _secrets_of(data, device or 0)
    verdicts = [_verdict(command, secrets) for command in commands]
    print_items(verdicts, _COLUMNS, json, when_empty="No commands.")
    if not all(verdict["valid"] for verdict in verdicts):
        raise typer.Exit(1)


def _text_of(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")


def _commands_in(text: str) -> list[dict[str, Any]]:
    """The commands of a file. Duplicate keys are refused: the collector may have read the other value."""
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


def _secrets_of(data: Path | None, device_id: int) -> list[str]:
    with open_edge(data) as edge:
        return edge.database.write_now(_read_secrets, edge.trail, edge.box, device_id)


def _read_secrets(conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int) -> list[str]:
    """The collector's valid secrets. Reading them is recorded in the audit trail."""
    site_id = collectors.find(conn, device_id).site_id
    detail = {"device_id": device_id}
    trail.record(conn, AuditEntry(site_id, cli_actor(), "collector.secret_read", None, None, None, detail))
    return box.valid_secrets(collectors.sealed_secrets(conn, device_id), conn.now_ms)


def _verdict(command: dict[str, Any], secrets: list[str]) -> dict[str, Any]:
    verdicts = [verify_command(command, secret) for secret in secrets]
    best = next((verdict for verdict in verdicts if verdict.is_valid), verdicts[0])
    return {"command_id": command.get("command_id"), "valid": best.is_valid, "reason": best.reason}
