"""`restante audit`: the trail of all that was done to commands and collectors, and the proof that it is unbroken."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from restante.cli.edge import Edge, SiteOption, audit_mac, opened_edge, show_next
from restante.cli.opening import opened
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_table
from restante.commands import audit_export, audit_listing
from restante.commands.audit import Checkpoint
from restante.commands.audit_listing import AuditFilter
from restante.commands.audit_verify import LiveVerification, Verdict, open_export, verify_export
from restante.commands.wire import parse_iso
from restante.core.keyed_hash import KeyedHash
from restante.web.paging import Window

app = typer.Typer(no_args_is_help=True, help="The audit trail of edge commands.")


@app.command("list")
def list_rows(
    site: SiteOption = None,
    command: Annotated[str | None, typer.Option("--command", help="Only what happened to this command.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Only what this actor did.")] = None,
    event: Annotated[str | None, typer.Option("--event", help="Only events of this name.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="From this moment on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this moment.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List what was done, newest first."""
    since_ms = None if since is None else parse_iso(since, "--since")
    until_ms = None if until is None else parse_iso(until, "--until")
    wanted = AuditFilter(site, command, by, event, since_ms, until_ms)
    with opened(data) as database:
        page = database.read_now(audit_listing.list_page, wanted, Window(limit, after))
    if json:
        show_json(page)
        return
    rows = [
        (row.at, row.site_id, row.n, row.actor, row.event, row.command_id, row.to_state, bytes(row.detail).decode())
        for row in page.items
    ]
    show_table(("at", "site", "n", "who", "what", "command", "to", "detail"), rows, when_empty="Nothing was recorded.")
    show_next(page.next)


@app.command("export")
def export(
    site: SiteOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to, instead of stdout.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Write the trail as JSON lines, in a form that can be verified without the database."""
    with opened_edge(data) as edge:
        if out is None:
            _write_export(edge, site, sys.stdout.buffer)
            return
        with out.open("wb") as file:
            rows = _write_export(edge, site, file)
    if json:
        show_json({"file": str(out), "rows": rows})
    else:
        typer.echo(f"{rows} rows are in {out}.")


@app.command("verify")
def verify(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="An export, instead of the live trail.")] = None,
    since: Annotated[
        Path | None, typer.Option("--since", metavar="FILE", help="An earlier export: its rows must still be there.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Prove the trail unbroken, or name the first row that is not; then the exit code is 1."""
    if file is not None and since is not None:
        raise typer.BadParameter("--since is for the live trail")
    verdict = _live_verdict(data, since) if file is None else _file_verdict(audit_mac(data), file)
    if json:
        show_json(verdict)
    else:
        typer.echo(verdict.sentence)
    if not verdict.intact:
        raise typer.Exit(1)


def _write_export(edge: Edge, site_id: int | None, file: BinaryIO) -> int:
    """Piece by piece: a trail may be longer than memory. What is written meanwhile is not in it."""
    header = edge.database.read_now(audit_export.header, edge.trail.mac, site_id)
    file.write(audit_export.as_line(header))
    written = 0
    for chain, after, until in audit_export.batches(header):
        rows = edge.database.read_now(audit_export.rows_between, chain, after, until)
        file.writelines(map(audit_export.as_line, rows))
        written += len(rows)
    file.flush()
    return written


def _live_verdict(data: Path | None, since: Path | None) -> Verdict:
    with opened_edge(data) as edge:
        verification = LiveVerification(edge.trail.mac, _anchors(edge.trail.mac, since) if since else ())
        while edge.database.read_now(verification.step):
            pass
    return verification.verdict


def _file_verdict(mac: KeyedHash, path: Path) -> Verdict:
    with path.open("rb") as lines:
        return verify_export(lines, mac)


def _anchors(mac: KeyedHash, path: Path) -> Sequence[Checkpoint]:
    with path.open("rb") as lines:
        return open_export(lines, mac)
