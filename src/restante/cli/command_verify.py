"""`restante commands verify`: whether a signed command is one of ours, checked outside of any server."""

import json as json_text
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.edge import actor, opened_edge
from restante.cli.options import ID_MAX, DataOption, JsonOption
from restante.cli.output import show_json, show_table
from restante.commands import collectors
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.collectors import SecretBox
from restante.commands.signing import verify_signed
from restante.core.errors import BadInput
from restante.database.connection import Connection


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A command or a poll's answer, as JSON; - for stdin.")],
    device: Annotated[
        int | None, typer.Option("--collector", min=1, max=ID_MAX, help="Whose secret signed it: a collector of ours.")
    ] = None,
    secret_file: Annotated[
        Path | None, typer.Option("--secret-file", metavar="FILE", help="The secret itself, in a file.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Check the signature of commands; exit code 1 if one does not hold."""
    if (device is None) == (secret_file is None):
        raise typer.BadParameter("give --collector or --secret-file")
    wanted = _commands_in(_text_of(file))
    secrets = [secret_file.read_text("utf-8").strip()] if secret_file else _secrets_of(data, device or 0)
    verdicts = [_verdict(command, secrets) for command in wanted]
    if json:
        show_json(verdicts)
    else:
        rows = [(each["command_id"], "valid" if each["valid"] else "INVALID", each["reason"]) for each in verdicts]
        show_table(("command", "signature", "why"), rows, when_empty="No commands.")
    if not all(each["valid"] for each in verdicts):
        raise typer.Exit(1)


def _text_of(file: Path) -> str:
    return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")


def _commands_in(text: str) -> list[dict[str, Any]]:
    """The commands of a file; a key that is there twice could mean something else to the collector."""
    try:
        value = json_text.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadInput("FILE", f"JSON ({error})") from None
    if isinstance(value, dict) and isinstance(value.get("commands"), list):
        value = value["commands"]
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(command, dict) for command in found):
        raise BadInput("FILE", "a command, a list of commands, or a poll's answer")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice in one object")
    return found


def _secrets_of(data: Path | None, device_id: int) -> list[str]:
    with opened_edge(data) as edge:
        return edge.database.write_now(_read_secrets, edge.trail, edge.box, device_id)


def _read_secrets(conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int) -> list[str]:
    """The collector's valid secrets; that they were read is recorded."""
    site_id = collectors.find(conn, device_id).site_id
    detail = {"device_id": device_id}
    trail.record(conn, AuditEntry(site_id, actor(), "collector.secret_read", None, None, None, detail))
    return box.valid(collectors.sealed_secrets(conn, device_id), conn.now_ms)


def _verdict(command: dict[str, Any], secrets: list[str]) -> dict[str, Any]:
    verdicts = [verify_signed(command, secret) for secret in secrets]
    best = next((each for each in verdicts if each.is_valid), verdicts[0])
    return {"command_id": command.get("command_id"), "valid": best.is_valid, "reason": best.reason}
