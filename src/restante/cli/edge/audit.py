"""`restante audit`: list, export, verify and anchor the audit trail of commands and collectors.

A file is verified on this machine, with nothing but the master key; the live trail is verified by the server.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.database import load_settings, open_database_for
from restante.cli.output import print_result, when, write_parts
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import SiteOption, command_of, site_id
from restante.cli.remote.common_options import DataOption, JsonOption, ProfileOption, ServerOption
from restante.cli.remote.noun import Call, Filters, Noun, Page, run_remotely
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

FILTERS: Filters = {
    "site_id": filters.SITE,
    "command_id": filters.text("--command", "ID", "Only of this command.", completion.COMMANDS, command_of),
    "actor": filters.text("--by", "WHO", "Only what this actor did."),
    "event": filters.text("--event", "NAME", "Only events of this name."),
    "since": filters.SINCE,
    "until": filters.UNTIL,
}


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
    filters=FILTERS,
)
def list_rows(call: Call) -> Page:
    """List audit rows, newest first."""
    return call.page(call.client.audit.list_page, **call.filters)


@AUDIT.runs("export")
def export(
    call: Call,
    site: SiteOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file. Default: stdout.")] = None,
) -> None:
    """Export the trail as JSON lines, which can be verified without the database."""
    where = None if site is None else site_id(call, site)
    write_parts(call.client.audit.export(site_id=where), out)


@app.command("verify")
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="An exported file. Default: the live trail.")
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
