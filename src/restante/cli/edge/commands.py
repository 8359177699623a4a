"""`restante command`: create, list, explain, approve, cancel and verify commands for miners."""

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, identity, print_list, print_one, when
from restante.cli.remote.arguments import (
    COMMANDS,
    MinerOption,
    SiteArgument,
    SiteOption,
    ZoneOption,
    choice,
    full_id,
    json_object,
    site_id,
    whole_number,
)
from restante.cli.remote.noun import (
    Call,
    DataOption,
    Item,
    JsonOption,
    Noun,
    Page,
    ProfileOption,
    ServerOption,
    run_remotely,
)
from restante.cli.remote.times import parse_duration
from restante.commands.dispatch.signing import verify_command
from restante.core.commands.command_states import State
from restante.core.errors import BadInput

COMMAND = Noun("Commands for miners.")
app = COMMAND.app

CommandArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The command's id, or its beginning.", autocompletion=COMMANDS)
]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="For example MINER_RESTART, or restart.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="The reason, for the audit trail.")]
COLUMNS: Columns = {
    "id": identity("command_id"),
    "site": "site_id",
    "miner": Column(lambda command: command["miner_id"] or "many"),
    "type": "command_type",
    "priority": "priority",
    "status": "status",
    "made by": "created_by",
    "made": when("created_at"),
    "expires": when("expires_at"),
    "result": "result_code",
}


HISTORY: Columns = {
    "at": when("at"),
    "who": "actor",
    "what": "event",
    "from": "from_state",
    "to": "to_state",
    "detail": "detail",
}


@COMMAND.lists(COLUMNS, empty="No commands.", has_since=True)
def list_commands(
    call: Call,
    site: SiteOption = None,
    miner_id: MinerOption = None,
    status: Annotated[str | None, choice("--status", [each.value for each in State], "Only in this state.")] = None,
    command_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only of this type.")] = None,
    created_by: Annotated[
        str | None, typer.Option("--by", metavar="WHO", help="Only those made by this actor.")
    ] = None,
) -> Page:
    """List commands, newest first."""
    return call.page(
        call.client.commands.list_page,
        site_id=site_id(call, site),
        miner_id=miner_id,
        status=status,
        command_type=command_type,
        created_by=created_by,
    )


@COMMAND.runs("show")
def show(call: Call, command: CommandArgument) -> None:
    """Show one command with its history."""
    found = dict(call.client.commands.get(command_of(call, command)))
    if call.is_json:
        print_one(found, None, as_json=True, is_utc=True)
        return
    history: list[Item] = found.pop("history")  # type: ignore[assignment]
    print_one(found, None, as_json=False, is_utc=call.is_utc)
    page = {"items": history, "next": None}
    print_list(page, HISTORY, as_json=False, is_utc=call.is_utc, when_empty="No history.")


@COMMAND.does("create", "{command_id} is made, {status}: {command_type}, until {expires_at}.", asks=True)
def create(
    call: Call,
    site: SiteArgument,
    command_type: TypeArgument,
    miner_id: MinerOption = None,
    target_ids: Annotated[
        list[int] | None,
        typer.Option("--target", metavar="ID", parser=whole_number, help="One of several miners; repeatable."),
    ] = None,
    all_miners: Annotated[bool, typer.Option("--all-miners", help="Every miner of the site or zone.")] = False,
    zone_id: ZoneOption = None,
    params: Annotated[
        str | None,
        typer.Option(
            "--params",
            metavar="JSON",
            help="The parameters of the type: a JSON object, or @FILE, or - for stdin. Every user of the machine sees "
            "a command line: use a file for a password.",
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", help="0 is normal, higher is more urgent.")
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
    where = site_id(call, site)
    given: dict[str, Any] = {
        "site_id": where,
        "command_type": command_type,
        "miner_id": miner_id,
        "target_ids": target_ids or None,
        "all_miners": all_miners or None,
        "zone_id": zone_id,
        "params": None if params is None else json_object(params, "--params"),
        "priority": priority,
        "ttl_sec": None if ttl_sec is None else parse_duration(ttl_sec, "--ttl"),
        "expires_at": expires_at,
        "dedupe_key": dedupe_key,
        "max_retries": max_retries,
        "supersedes": supersedes,
    }
    _confirm_many(call, where, command_type, target_ids, all_miners, zone_id)
    made = call.client.commands.create(**{name: value for name, value in given.items() if value is not None})
    if made.get("status") == State.pending_approval:
        call.note("It waits for approval: another person approves it with `restante command approve`.")
    return made


def _confirm_many(
    call: Call, site: int | None, command_type: str, targets: list[int] | None, all_miners: bool, zone: int | None
) -> None:
    """Ask if the command is for more than one miner."""
    if all_miners:
        count = sum(1 for _ in call.client.miners.list(site_id=site, zone_id=zone))
        place = f"site {site}" if zone is None else f"zone {zone} of site {site}"
        call.confirm(f"This sends {command_type} to all miners of {place}: {count}.")
    elif len(targets or ()) > 1:
        call.confirm(f"This sends {command_type} to {len(targets or ())} miners of site {site}.")
    elif call.is_dry_run:
        call.confirm(f"This sends {command_type} to one miner of site {site}.")


@COMMAND.does("cancel", "{command_id} is {status}.")
def cancel(call: Call, command: CommandArgument, reason: ReasonOption = None) -> Any:
    """Cancel a command, even a dispatched one: its ACK is then refused."""
    return call.client.commands.cancel(command_of(call, command), **_reason(reason))


@COMMAND.does("approve", "{command_id} is {status}.")
def approve(call: Call, command: CommandArgument) -> Any:
    """Approve a command. This needs `restante login` as a person who did not make it."""
    return call.client.commands.approve(command_of(call, command))


@COMMAND.does("deny", "{command_id} is denied.")
def deny(call: Call, command: CommandArgument, reason: ReasonOption = None) -> Any:
    """Deny a command that waits for approval."""
    return call.client.commands.deny(command_of(call, command), **_reason(reason))


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


@app.command("verify")
def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A command or the response of a poll, as JSON; - for stdin.")
    ],
    collector: Annotated[
        int | None,
        typer.Option("--collector", metavar="ID", parser=whole_number, help="The collector whose secret signed it."),
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
        lambda call: call.client.collectors.verify(collector or 0, commands=commands)["items"],
        lambda _, verdicts: print_verdicts(verdicts, json),
        options,
        {"device_id": "--collector"},
    )


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


def command_of(call: Call, text: str) -> str:
    return full_id(text, "command_id", call.client.commands.get, call.client.commands.list())


def _reason(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}
