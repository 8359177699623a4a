"""`restante commands`: create, list, approve, cancel and explain commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.edge import command_verify
from restante.cli.edge.context import SiteArgument, SiteOption, ZoneOption, open_edge
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import (
    Columns,
    present_fields,
    print_fields,
    print_json,
    print_page,
    print_record,
    print_result,
    print_table,
)
from restante.commands.lifecycle import approval, approval_policy, cancellation, creation, explanation, listing
from restante.commands.lifecycle.approval_policy import ApprovalPolicy
from restante.commands.lifecycle.command_types import standard_type
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.lifecycle.listing import CommandFilter, CommandView
from restante.commands.lifecycle.makers import WINDOW_SECONDS_MAX
from restante.core.commands.command_states import State
from restante.core.errors import NotAllowed
from restante.core.iso_time import parse_iso
from restante.database.paging import PageRequest

app = typer.Typer(no_args_is_help=True, help="Commands for miners.")
app.command("verify")(command_verify.verify)

CommandArgument = Annotated[str, typer.Argument(metavar="ID", help="The command's id.")]
MinerOption = Annotated[int | None, typer.Option("--miner", min=1, max=ID_MAX, help="The miner's id.")]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="For example MINER_RESTART, or restart.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="The reason, for the audit trail.")]

_COLUMNS: Columns = {
    "id": "command_id",
    "site": "site_id",
    "miner": lambda command: command.miner_id or "many",
    "type": "command_type",
    "priority": "priority",
    "status": "status",
    "made by": "created_by",
    "made": "created_at",
    "expires": "expires_at",
    "result": "result_code",
}


_POLICY_COLUMNS: Columns = {
    "types": lambda policy: ", ".join(policy.command_types) or "none",
    "from miners": lambda policy: policy.miners_from or "never",
    "window": lambda policy: f"{policy.window_seconds} s",
    "changed": "changed_at",
    "by": "changed_by",
}


@app.command("send")
def send(
    site: SiteArgument,
    command_type: TypeArgument,
    miner: MinerOption = None,
    targets: Annotated[
        list[int] | None, typer.Option("--target", min=1, max=ID_MAX, help="One of several miners; repeatable.")
    ] = None,
    all_miners: Annotated[bool, typer.Option("--all-miners", help="Every miner of the site or zone.")] = False,
    zone: ZoneOption = None,
    params: Annotated[
        str,
        typer.Option(
            "--params",
            metavar="JSON",
            help="The parameters of the type: a JSON object, or @FILE, or - for stdin. Every user of the machine sees "
            "a command line: use a file for a password.",
        ),
    ] = "{}",
    priority: Annotated[int, typer.Option("--priority", help="0 is normal, higher is more urgent.")] = 0,
    ttl: Annotated[int | None, typer.Option("--ttl", metavar="SECONDS", help="How long it stays valid.")] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="TIME", help="The expiry time, instead of --ttl.")
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", help="At most one active command has this key.")
    ] = None,
    max_retries: Annotated[
        int | None, typer.Option("--max-retries", help="How often a failed attempt is repeated.")
    ] = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="ID", help="The command that this one replaces.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a command. The next poll of a collector of the site gets it."""
    request = CommandRequest(
        site_id=site,
        command_type=command_type,
        miner_id=miner,
        target_ids=targets or None,
        all_miners=all_miners,
        zone_id=zone,
        params=_params_of(params),
        priority=priority,
        ttl_sec=ttl,
        expires_at_ms=None if expires_at is None else parse_iso(expires_at, "--expires-at"),
        dedupe_key=dedupe_key,
        max_retries=max_retries,
        supersedes=supersedes,
    )
    with open_edge(data) as edge:
        command = edge.database.write_now(
            creation.create, edge.trail, request, cli_actor(), edge.options.for_creation(edge.box)
        )
    waits = " and waits for approval" if command.status == State.pending_approval else ""
    text = f"{command.command_id} is made{waits}: {command.command_type}, until {command.expires_at}."
    print_result(command, text, json)


@app.command("list")
def list_commands(
    site: SiteOption = None,
    miner: MinerOption = None,
    status: Annotated[State | None, typer.Option("--status", help="Only commands in this state.")] = None,
    command_type: Annotated[str | None, typer.Option("--type", help="Only commands of this type.")] = None,
    created_by: Annotated[str | None, typer.Option("--by", help="Only commands created by this actor.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List commands, newest first."""
    command_filter = CommandFilter(
        site_id=site,
        miner_id=miner,
        status=None if status is None else status.value,
        command_type=None if command_type is None else standard_type(command_type, "--type"),
        created_by=created_by,
    )
    with open_database(data) as database:
        page = database.read_now(listing.list_page, command_filter, PageRequest(limit, after))
    print_page(page, _COLUMNS, json, when_empty="No commands.")


@app.command("show")
def show(command_id: CommandArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show one command with its history."""
    with open_database(data) as database:
        command = database.read_now(listing.show, command_id)
    if json:
        print_json(command)
        return
    print_fields(present_fields(command, CommandView.__struct_fields__).items())
    history = [
        (row.at, row.actor, row.event, row.from_state, row.to_state, bytes(row.detail).decode())
        for row in command.history
    ]
    print_table(("at", "who", "what", "from", "to", "detail"), history, when_empty="No history.")


@app.command("cancel")
def cancel(
    command_id: CommandArgument, reason: ReasonOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Cancel a command, even a dispatched one: its ACK is then refused."""
    with open_edge(data) as edge:
        edge.database.write_now(cancellation.cancel, edge.trail, command_id, cli_actor(), reason)
    _print_state(command_id, State.cancelled, "is cancelled", json)


@app.command("approve")
def approve(command_id: CommandArgument, data: DataOption = None, _json: JsonOption = False) -> None:
    """Explain how to approve a command: only a signed-in person can, over HTTP."""
    with open_database(data) as database:
        database.read_now(listing.get, command_id)
    path = f"/api/edge/v1/admin/commands/{command_id}/approve"
    raise NotAllowed(f"approval needs a signed-in person, which a shell does not prove: sign in and POST {path}")


@app.command("deny")
def deny(
    command_id: CommandArgument, reason: ReasonOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Deny a command that waits for approval."""
    with open_edge(data) as edge:
        edge.database.write_now(approval.deny, edge.trail, command_id, cli_actor(), reason)
    _print_state(command_id, State.cancelled, "is denied", json)


@app.command("policy")
def policy(
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="A type that needs approval; repeatable.")
    ] = None,
    no_types: Annotated[bool, typer.Option("--no-types", help="No type needs approval by itself.")] = False,
    miners_from: Annotated[
        int | None,
        typer.Option("--from-miners", min=0, max=1_000_000, help="From how many miners on; 0: never."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", metavar="SECONDS", min=1, max=WINDOW_SECONDS_MAX, help="How long commands count together."
        ),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show which commands need approval, or change it; the audit trail records the change."""
    with open_edge(data) as edge:
        initial = edge.options.approval
        stored = edge.database.read_now(approval_policy.show, initial)
        if types or no_types or miners_from is not None or window is not None:
            changed = ApprovalPolicy(
                command_types=types or ([] if no_types else stored.command_types),
                miners_from=stored.miners_from if miners_from is None else miners_from or None,
                window_seconds=window or stored.window_seconds,
            )
            stored = edge.database.write_now(approval_policy.change, edge.trail, initial, changed, cli_actor())
    print_record(stored, _POLICY_COLUMNS, json)


@app.command("why")
def explain(command_id: CommandArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Explain what a command is waiting for."""
    with open_edge(data) as edge:
        explained = edge.database.write_now(explanation.explain, edge.trail, edge.options.for_claims(), command_id)
    print_result(explained, explained.sentence, json)


def _params_of(given: str) -> bytes:
    if given == "-":
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given.encode()
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"--params: cannot read {given[1:]}: {error.strerror}") from None


def _print_state(command_id: str, state: State, what: str, json: bool) -> None:
    print_result({"command_id": command_id, "status": state.value}, f"{command_id} {what}.", json)
