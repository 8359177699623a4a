"""`restante audit`: list, export, verify and anchor the audit trail of commands and collectors."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from restante.cli.database import open_database
from restante.cli.edge.context import EdgeContext, SiteOption, audit_mac, open_edge
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import Columns, print_page, print_result
from restante.commands.audit import audit_export, audit_listing
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.audit.audit_trail import Checkpoint
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification, anchored_checkpoints, verify_export
from restante.commands.audit.heads_recorder import record_now
from restante.commands.audit.signed_heads import AnchorFailed, AnchorTarget
from restante.core.errors import BadInput, Conflict
from restante.core.iso_time import parse_iso
from restante.core.keyed_hash import KeyedHash
from restante.database.paging import PageRequest

app = typer.Typer(no_args_is_help=True, help="The audit trail of edge commands.")

_COLUMNS: Columns = {
    "at": "at",
    "site": "site_id",
    "n": "n",
    "who": "actor",
    "what": "event",
    "command": "command_id",
    "to": "to_state",
    "detail": lambda row: bytes(row.detail).decode(),
}


@app.command("list")
def list_rows(
    site: SiteOption = None,
    command: Annotated[str | None, typer.Option("--command", help="Only what happened to this command.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Only what this actor did.")] = None,
    event: Annotated[str | None, typer.Option("--event", help="Only events of this name.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="From this time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this time.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List audit rows, newest first."""
    since_ms = None if since is None else parse_iso(since, "--since")
    until_ms = None if until is None else parse_iso(until, "--until")
    audit_filter = AuditFilter(site, command, by, event, since_ms, until_ms)
    with open_database(data) as database:
        page = database.read_now(audit_listing.list_page, audit_filter, PageRequest(limit, after))
    print_page(page, _COLUMNS, json, when_empty="Nothing was recorded.")


@app.command("export")
def export(
    site: SiteOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write. Default: stdout.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Export the trail as JSON lines, which can be verified without the database."""
    with open_edge(data) as edge:
        if out is None:
            _write_export(edge, site, sys.stdout.buffer)
            return
        with out.open("wb") as file:
            rows = _write_export(edge, site, file)
    print_result({"file": str(out), "rows": rows}, f"{rows} rows are in {out}.", json)


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
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Verify the trail. If it is broken, print the first bad row and exit with code 1."""
    if file is not None and since is not None:
        raise typer.BadParameter("--since is for the live trail")
    verdict = _live_verdict(data, since) if file is None else _file_verdict(audit_mac(data), file)
    print_result(verdict, verdict.sentence, json)
    if not verdict.intact:
        raise typer.Exit(1)


@app.command("anchor")
def anchor(
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TARGET", help="syslog, a URL or a file. Default: the setting audit_anchor."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Write a signed head of the trail to a place out of reach of the people whose actions are recorded."""
    with open_edge(data) as edge:
        target = edge.options.heads.anchor if to is None else _target(to)
        if target is None:
            raise typer.BadParameter("name a target with --to, or set audit_anchor")
        head = record_now(edge.database, edge.trail, edge.remembered.folder, every_chain=True)
    if head is None:
        raise Conflict("the audit trail is empty: there is nothing to anchor")
    try:
        target.send(head)
    except AnchorFailed as error:
        raise Conflict(f"the head was not written to {target}: {error}") from None
    print_result(head, f"Row {head.n} of chain 0 is anchored at {target}.", json)


def _target(text: str) -> AnchorTarget:
    try:
        return AnchorTarget(text)
    except ValueError:
        raise BadInput("--to", AnchorTarget.expected) from None


def _write_export(edge: EdgeContext, site_id: int | None, file: BinaryIO) -> int:
    """Write in batches, because a trail may be larger than memory. Rows added meanwhile are not exported."""
    header = edge.database.read_now(audit_export.build_header, edge.trail.mac, site_id)
    file.write(audit_export.encode_line(header))
    written = 0
    for chain, after, until in audit_export.row_ranges(header):
        rows = edge.database.read_now(audit_export.read_rows, chain, after, until)
        file.writelines(map(audit_export.encode_line, rows))
        written += len(rows)
    file.flush()
    return written


def _live_verdict(data: Path | None, since: Path | None) -> ChainVerdict:
    with open_edge(data) as edge:
        mac = edge.trail.mac
        anchors = [*edge.remembered.checkpoints(), *(_anchors(mac, since) if since else ())]
        verification = LiveVerification(mac, anchors)
        while edge.database.read_now(verification.step):
            pass
    return verification.verdict


def _file_verdict(mac: KeyedHash, path: Path) -> ChainVerdict:
    with path.open("rb") as lines:
        return verify_export(lines, mac)


def _anchors(mac: KeyedHash, path: Path) -> Sequence[Checkpoint]:
    with path.open("rb") as lines:
        return anchored_checkpoints(lines, mac)
