"""`restante audit`: list, export, verify and anchor the audit trail of commands and collectors.

A file is verified on this machine, with nothing but the master key; the live trail is verified by the server.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.database import load_settings, open_database_for
from restante.cli.edge.rules import write_parts
from restante.cli.output import print_result, when
from restante.cli.remote.arguments import SiteOption, site_id
from restante.cli.remote.noun import (
    Call,
    DataOption,
    JsonOption,
    Noun,
    Page,
    ProfileOption,
    ServerOption,
    run_remotely,
)
from restante.cli.remote.times import parse_since, rfc3339
from restante.commands.audit.audit_trail import KEY_PURPOSE
from restante.commands.audit.audit_verify import BrokenRow, ChainVerdict, verify_export
from restante.commands.audit.signed_heads import AnchorFailed, AnchorTarget, SignedHead, is_head
from restante.core.errors import BadInput, Conflict
from restante.core.keyed_hash import KeyedHash
from restante.identity.master_key import MasterKeyError
from restante.identity.signing_keys import matching_master_key
from restante.server.data_folder import DataFolder
from restante.server.engines import master_key_source

AUDIT = Noun("The audit trail of edge commands.")
app = AUDIT.app


@AUDIT.lists(
    {
        "at": when("at"),
        "site": "site_id",
        "n": "n",
        "who": "actor",
        "what": "event",
        "command": "command_id",
        "to": "to_state",
        "detail": "detail",
    },
    empty="Nothing was recorded.",
    has_since=True,
)
def list_rows(
    call: Call,
    site: SiteOption = None,
    command_id: Annotated[str | None, typer.Option("--command", metavar="ID", help="Only of this command.")] = None,
    actor: Annotated[str | None, typer.Option("--by", metavar="WHO", help="Only what this actor did.")] = None,
    event: Annotated[str | None, typer.Option("--event", metavar="NAME", help="Only events of this name.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only older ones: 1h, or a time.")
    ] = None,
) -> Page:
    """List audit rows, newest first."""
    since = None if call.since is None else rfc3339(call.since)
    call.since = None
    return call.page(
        call.client.audit.list_page,
        site_id=site_id(call, site),
        command_id=command_id,
        actor=actor,
        event=event,
        since=since,
        until=None if until is None else rfc3339(parse_since(until, "--until")),
    )


@AUDIT.runs("export")
def export(
    call: Call,
    site: SiteOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file. Default: stdout.")] = None,
) -> None:
    """Export the trail as JSON lines, which can be verified without the database."""
    write_parts(call.client.audit.export(site_id=site_id(call, site)), out)


@app.command("verify")
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An exported file. Default: the live trail.")
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since", metavar="FILE", help="An earlier export, or a file of anchors: their rows must still exist."
        ),
    ] = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Verify the trail. If it is broken, print the first bad row and exit with code 1.

    An exported file is verified without a server; that needs the master key of the trail.
    """
    if file is not None:
        if since is not None:
            raise typer.BadParameter("--since is for the live trail")
        with file.open("rb") as lines:
            _print_verdict(msgspec.to_builtins(verify_export(lines, audit_mac(data))), json)
        return
    options = {"server": server, "profile": profile, "data": data, "json": json, "utc": True}
    flags = {"since": "--since"}
    run_remotely(lambda call: _live(call, since), lambda _, verdict: _print_verdict(verdict, json), options, flags)


def _live(call: Call, since: Path | None) -> Any:
    return call.client.audit.verify() if since is None else call.client.audit.verify_since(since=_lines(since))


def _lines(file: Path) -> list[str]:
    """The signed heads of a file of anchors, or the signed header of an export."""
    with file.open("rb") as stream:
        first = stream.readline()
        lines = [first, *stream] if is_head(first) else [first]
    return [line.decode("utf-8", "replace") for line in lines]


def _print_verdict(verdict: dict[str, Any], as_json: bool) -> None:
    broken = verdict.get("broken")
    found = ChainVerdict(verdict["intact"], verdict["chains"], verdict["rows"], broken and BrokenRow(**broken))
    print_result(verdict, found.sentence, as_json)
    if not verdict["intact"]:
        raise typer.Exit(1)


@AUDIT.does("anchor", "Row {n} of chain {chain} is anchored.")
def anchor(
    call: Call,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TARGET", help="syslog, a URL or a file of this machine. Default: print it."),
    ] = None,
) -> Any:
    """Record the heads of all chains, and write the signed head of the main chain to a place that you choose."""
    target = None if to is None else _target(to)
    head: Any = call.client.audit.anchor()
    if target is None:
        call.note(msgspec.json.encode(head).decode())
        return head
    try:
        target.send(msgspec.convert(head, SignedHead))
    except AnchorFailed as error:
        raise Conflict(f"the head was not written to {target}: {error}") from None
    call.note(f"It is at {target}.")
    return head


def _target(text: str) -> AnchorTarget:
    try:
        return AnchorTarget(text)
    except ValueError:
        raise BadInput("--to", AnchorTarget.expected) from None


def audit_mac(data: Path | None) -> KeyedHash:
    """The MAC that verifies the trail.

    Without the database it needs the first master key of the trail, so any machine can verify. Beside the database the
    current one is enough: a change of the master key stores the key of the trail there.
    """
    settings = load_settings(data)
    source = master_key_source(settings)
    master_key = source.find()
    if master_key is None:
        raise MasterKeyError(f"{source} does not exist", "provide the key that the trail was written with")
    if settings.database is not None or DataFolder(settings.data).database_path.exists():
        with open_database_for(settings) as database:
            master_key = database.read_now(matching_master_key, source) or master_key
    return KeyedHash(master_key.derive_key(KEY_PURPOSE))
