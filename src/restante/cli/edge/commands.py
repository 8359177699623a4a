"""`restante command`: create, list, explain, approve, cancel and verify commands for miners."""

from typing import Annotated, Any

import typer

from restante.cli.edge.command_signatures import verify
from restante.cli.output import Column, Columns, identity, print_list, print_one, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import (
    MinerOption,
    ParamsOption,
    ReasonOption,
    SiteArgument,
    ZoneOption,
    command_of,
    given,
)
from restante.cli.remote.arguments import miner_id as miner_of
from restante.cli.remote.arguments import site_id as site_of
from restante.cli.remote.common_options import WATCHING
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import json_object, whole_number
from restante.core.commands.command_states import State

COMMAND = Noun("Commands for miners.")
app = COMMAND.app

CommandArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The command's id, or its beginning.", autocompletion=completion.COMMANDS)
]
TypeArgument = Annotated[
    str,
    typer.Argument(
        metavar="TYPE", help="For example MINER_RESTART, or restart.", autocompletion=completion.COMMAND_TYPES
    ),
]
COLUMNS: Columns = {
    "id": identity("command_id"),
    "site": "site_id",
    "miner": Column(lambda command: command["miner_id"] or "many"),
    "type": "command_type",
    "status": "status",
    "made": when("created_at"),
    "expires": when("expires_at"),
    "result": "result_code",
    "made by": "created_by",
    "priority": "priority",
}


HISTORY: Columns = {
    "at": when("at"),
    "who": "actor",
    "what": "event",
    "from": "from_state",
    "to": "to_state",
    "detail": "detail",
}


@COMMAND.lists(
    COLUMNS,
    empty="No commands.",
    filters=filters.COMMANDS,
    counts=lambda call: call.client.commands.counts(**call.filters),
)
def list_commands(call: Call) -> Page:
    """List commands, newest first."""
    return call.page(call.client.commands.list_page, **call.filters)


COMMAND.exports(
    "commands",
    lambda call, format: call.client.commands.export(format=format, **call.filters),
    filters=filters.COMMANDS,
)


def _print_command(call: Call, command: Item) -> None:
    if call.is_json:
        print_one(command, None, as_json=True, is_utc=True)
        return
    print_one({**command, "history": None}, None, as_json=False, is_utc=call.is_utc)
    page = {"items": command["history"], "next": None}
    print_list(page, HISTORY, as_json=False, is_utc=call.is_utc, when_empty="No history.")


@COMMAND.verb("show", _print_command, WATCHING)
def show(call: Call, command: CommandArgument) -> Item:
    """Show one command with its history."""
    return dict(call.client.commands.get(command_of(call, command)))


@COMMAND.does("create", "{command_id} is made, {status}: {command_type}, until {expires_at}.", asks=True)
def create(
    call: Call,
    site_id: SiteArgument,
    command_type: TypeArgument,
    miner_id: MinerOption = None,
    target_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--target", metavar="MINER", help="One of several miners; repeatable.", autocompletion=completion.MINERS
        ),
    ] = None,
    all_miners: Annotated[bool, typer.Option("--all-miners", help="Every miner of the site or zone.")] = False,
    zone_id: ZoneOption = None,
    params: ParamsOption = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="N", parser=whole_number, help="0 is normal, higher is more urgent."),
    ] = None,
    ttl_sec: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="How long it stays valid: 10m, 1h.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="TIME", help="The expiry time, instead of --ttl.")
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", metavar="KEY", help="At most one active command has this key.")
    ] = None,
    max_retries: Annotated[
        int | None,
        typer.Option("--max-retries", metavar="N", help="How often a failed attempt is repeated.", parser=whole_number),
    ] = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="ID", help="The command that this one replaces.")
    ] = None,
) -> Any:
    """Create a command. The next poll of a collector of the site gets it."""
    where = site_of(call, site_id)
    fields = given(
        miner_id=None if miner_id is None else miner_of(call, miner_id),
        target_ids=[miner_of(call, each) for each in target_ids or ()] or None,
        all_miners=all_miners or None,
        zone_id=zone_id,
        params=None if params is None else json_object(params, "--params"),
        priority=priority,
        ttl_sec=None if ttl_sec is None else parse_duration(ttl_sec, "--ttl"),
        expires_at=expires_at,
        dedupe_key=dedupe_key,
        max_retries=max_retries,
        supersedes=None if supersedes is None else command_of(call, supersedes),
    )
    _confirm_many(call, where, command_type, target_ids, all_miners, zone_id)
    made = call.client.commands.create(site_id=where, command_type=command_type, **fields)
    if made.get("status") == State.pending_approval:
        call.note("It waits for approval: another person approves it with `restante command approve`.")
    return made


def _confirm_many(
    call: Call, site: int, command_type: str, targets: list[str] | None, all_miners: bool, zone: int | None
) -> None:
    """Ask if the command is for more than one miner."""
    if all_miners:
        count = call.client.miners.counts(site_id=site, zone_id=zone, status="active")["total"]["value"]
        place = f"site {site}" if zone is None else f"zone {zone} of site {site}"
        call.confirm(f"This sends {command_type} to all {count} miners of {place}.")
    elif len(targets or ()) > 1:
        call.confirm(f"This sends {command_type} to {len(targets or ())} miners of site {site}.")
    elif call.is_dry_run:
        call.confirm(f"This sends {command_type} to one miner of site {site}.")


@COMMAND.does("cancel", "{command_id} is {status}.")
def cancel(call: Call, command: CommandArgument, reason: ReasonOption = None) -> Any:
    """Cancel a command, even a dispatched one: its ACK is then refused."""
    return call.client.commands.cancel(command_of(call, command), **given(reason=reason))


@COMMAND.does("approve", "{command_id} is {status}.")
def approve(call: Call, command: CommandArgument) -> Any:
    """Approve a command. This needs `restante login` as a person who did not make it."""
    return call.client.commands.approve(command_of(call, command))


@COMMAND.does("deny", "{command_id} is denied.")
def deny(call: Call, command: CommandArgument, reason: ReasonOption = None) -> Any:
    """Deny a command that waits for approval."""
    return call.client.commands.deny(command_of(call, command), **given(reason=reason))


@COMMAND.does("why", "{sentence}")
def why(call: Call, command: CommandArgument) -> Any:
    """Explain what a command is waiting for."""
    return call.client.commands.why(command_of(call, command))


@COMMAND.shows(
    {
        "types": Column(lambda policy: ", ".join(policy["command_types"]) or "none"),
        "from miners": Column(lambda policy: policy["miners_from"] or "never"),
        "window": Column(lambda policy: f"{policy['window_seconds']} s"),
        "changed": when("changed_at"),
        "by": "changed_by",
    },
    name="policy",
)
def policy(
    call: Call,
    command_types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="A type that needs approval; repeatable.")
    ] = None,
    no_types: Annotated[bool, typer.Option("--no-types", help="No type needs approval by itself.")] = False,
    miners_from: Annotated[
        int | None,
        typer.Option("--from-miners", metavar="N", parser=whole_number, help="From how many miners on; 0: never."),
    ] = None,
    window_seconds: Annotated[
        str | None, typer.Option("--window", metavar="TIME", help="How long commands count together: 1h.")
    ] = None,
) -> Item:
    """Show which commands need approval, or change it; the audit trail records the change."""
    stored = call.client.commands.policy()
    if not command_types and not no_types and miners_from is None and window_seconds is None:
        return dict(stored)
    window = stored["window_seconds"] if window_seconds is None else parse_duration(window_seconds, "--window")
    changed = call.client.commands.set_policy(
        command_types=command_types or ([] if no_types else stored["command_types"]),
        miners_from=stored["miners_from"] if miners_from is None else miners_from or None,
        window_seconds=window,
    )
    return dict(changed)


app.command("verify")(verify)
