"""`restante commands`: what collectors are told to do."""

from typing import Annotated

import msgspec
import typer

from restante.cli import command_verify
from restante.cli.edge import SiteArgument, SiteOption, ZoneOption, actor, opened_edge, show_next
from restante.cli.opening import opened
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_record, show_table
from restante.commands import approval, cancelling, creation, listing, why
from restante.commands.command_types import standard_type
from restante.commands.creation import CommandWish
from restante.commands.listing import CommandDetail, CommandFilter, CommandView
from restante.commands.wire import parse_iso
from restante.core.command_states import State
from restante.web.paging import Window

app = typer.Typer(no_args_is_help=True, help="Commands for miners.")
app.command("verify")(command_verify.verify)

CommandArgument = Annotated[str, typer.Argument(metavar="ID", help="The command's id.")]
MinerOption = Annotated[int | None, typer.Option("--miner", min=1, max=ID_MAX, help="The miner's id.")]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="For example MINER_RESTART, or restart.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why, for who looks at it later.")]


@app.command("send")
def send(
    site: SiteArgument,
    command_type: TypeArgument,
    miner: MinerOption = None,
    targets: Annotated[
        list[int] | None, typer.Option("--target", min=1, max=ID_MAX, help="One of several miners; may be repeated.")
    ] = None,
    all_miners: Annotated[bool, typer.Option("--all-miners", help="Every miner of the site or zone.")] = False,
    zone: ZoneOption = None,
    params: Annotated[str, typer.Option("--params", metavar="JSON", help="What the type wants: a JSON object.")] = "{}",
    priority: Annotated[int, typer.Option("--priority", help="0 is normal, higher is more urgent.")] = 0,
    ttl: Annotated[int | None, typer.Option("--ttl", metavar="SECONDS", help="How long it stays valid.")] = None,
    expires_at: Annotated[str | None, typer.Option("--expires-at", metavar="TIME", help="Until when instead.")] = None,
    dedupe_key: Annotated[str | None, typer.Option("--dedupe-key", help="Only one active command has it.")] = None,
    max_retries: Annotated[int | None, typer.Option("--max-retries", help="How often it is tried again.")] = None,
    supersedes: Annotated[str | None, typer.Option("--supersedes", metavar="ID", help="Replaces that command.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Make a command; it is handed out as soon as a collector of the site polls."""
    wish = CommandWish(
        site_id=site,
        command_type=command_type,
        miner_id=miner,
        target_ids=targets or None,
        all_miners=all_miners,
        zone_id=zone,
        params=params.encode(),
        priority=priority,
        ttl_sec=ttl,
        expires_at_ms=None if expires_at is None else parse_iso(expires_at, "--expires-at"),
        dedupe_key=dedupe_key,
        max_retries=max_retries,
        supersedes=supersedes,
    )
    with opened_edge(data) as edge:
        made = edge.database.write_now(creation.create, edge.trail, wish, actor(), edge.options.for_creation())
    if json:
        show_json(made)
    else:
        waits = " and waits for approval" if made.status == State.pending_approval else ""
        typer.echo(f"{made.command_id} is made{waits}: {made.command_type}, until {made.expires_at}.")


@app.command("list")
def list_commands(
    site: SiteOption = None,
    miner: MinerOption = None,
    status: Annotated[State | None, typer.Option("--status", help="Only commands in this state.")] = None,
    command_type: Annotated[str | None, typer.Option("--type", help="Only commands of this type.")] = None,
    created_by: Annotated[str | None, typer.Option("--by", help="Only commands made by this actor.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List commands, newest first."""
    wanted = CommandFilter(
        site_id=site,
        miner_id=miner,
        status=None if status is None else status.value,
        command_type=None if command_type is None else standard_type(command_type, "--type"),
        created_by=created_by,
    )
    with opened(data) as database:
        page = database.read_now(listing.list_page, wanted, Window(limit, after))
    if json:
        show_json(page)
        return
    show_table(
        ("id", "site", "miner", "type", "priority", "status", "made by", "made", "expires", "result"),
        [_summary(command) for command in page.items],
        when_empty="No commands.",
    )
    show_next(page.next)


@app.command("show")
def show(command_id: CommandArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show everything about one command, and all that happened to it."""
    with opened(data) as database:
        command = database.read_now(listing.show, command_id)
    if json:
        show_json(command)
        return
    show_record(_details(command))
    history = [
        (row.at, row.actor, row.event, row.from_state, row.to_state, _text(row.detail)) for row in command.history
    ]
    show_table(("at", "who", "what", "from", "to", "detail"), history, when_empty="No history.")


@app.command("cancel")
def cancel(
    command_id: CommandArgument, reason: ReasonOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Cancel a command, even one that a collector holds: its ACK is then refused."""
    with opened_edge(data) as edge:
        edge.database.write_now(cancelling.cancel, edge.trail, command_id, actor(), reason)
    _tell(command_id, State.cancelled, "is cancelled", json)


@app.command("approve")
def approve(command_id: CommandArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Approve a command that somebody else made."""
    with opened_edge(data) as edge:
        edge.database.write_now(approval.approve, edge.trail, command_id, actor())
    _tell(command_id, State.pending, "is approved", json)


@app.command("deny")
def deny(
    command_id: CommandArgument, reason: ReasonOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Deny a command that waits for approval."""
    with opened_edge(data) as edge:
        edge.database.write_now(approval.deny, edge.trail, command_id, actor(), reason)
    _tell(command_id, State.cancelled, "is denied", json)


@app.command("why")
def explain(command_id: CommandArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Say what a command is waiting for."""
    with opened_edge(data) as edge:
        found = edge.database.write_now(why.explain, edge.trail, edge.options.rates, command_id)
    if json:
        show_json(found)
    else:
        typer.echo(found.sentence)


def _tell(command_id: str, state: State, what: str, json: bool) -> None:
    if json:
        show_json({"command_id": command_id, "status": state.value})
    else:
        typer.echo(f"{command_id} {what}.")


def _summary(command: CommandView) -> tuple[object, ...]:
    return (
        command.command_id,
        command.site_id,
        command.miner_id or "many",
        command.command_type,
        command.priority,
        command.status,
        command.created_by,
        command.created_at,
        command.expires_at,
        command.result_code,
    )


def _details(command: CommandDetail) -> list[tuple[str, object]]:
    fields = ((name, getattr(command, name)) for name in CommandView.__struct_fields__)
    return [(name.replace("_", " "), _text(value)) for name, value in fields if value is not None]


def _text(value: object) -> object:
    """JSON as it stands, everything else as it is."""
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else value
