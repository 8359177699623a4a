"""`restante bulk`: one action on everything that matches a filter."""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.edge import commands, miners
from restante.cli.events import events
from restante.cli.fleet import devices, outbox
from restante.cli.fleet.configs import ConfigArgument, NoteOption, config_of
from restante.cli.jobs.bulk_noun import Action, BulkNoun
from restante.cli.remote import filters
from restante.cli.remote.arguments import ReasonOption, given
from restante.cli.remote.noun import Call
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import json_file, json_object, whole_number

BULK = BulkNoun("One action on everything that matches a filter. The server does it as a job.")
app = BULK.app

PatchArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The merge patch of the config as JSON; - for standard input.")
]
TtlOption = Annotated[str | None, typer.Option("--ttl", metavar="TIME", help="How long they stay valid: 10m, 1h.")]
CommandParamsOption = Annotated[
    str | None,
    typer.Option("--params", metavar="JSON", help="The parameters of the type: a JSON object, @FILE, or -."),
]
PriorityOption = Annotated[
    int | None, typer.Option("--priority", metavar="N", parser=whole_number, help="0 is normal, higher is more urgent.")
]


@BULK.acts("put-config", devices.COLUMNS, filters.DEVICES)
def put_config(call: Call, installs: ConfigArgument, change_note: NoteOption = None) -> Action:
    """Replace the install config of devices. Devices that have it already are skipped."""
    params = config_of(installs, change_note)
    return Action(call.client.devices.bulk, "put_config", "replaces the install config of", "devices", params)


@BULK.acts("patch-config", devices.COLUMNS, filters.DEVICES)
def patch_config(call: Call, patch: PatchArgument, change_note: NoteOption = None) -> Action:
    """Change parts of the install config of devices, by a JSON merge patch."""
    params = given(patch=json_file(patch, "FILE"), change_note=change_note)
    return Action(call.client.devices.bulk, "patch_config", "changes the install config of", "devices", params)


@BULK.acts("send-signal", devices.COLUMNS, filters.DEVICES)
def send_signal(
    call: Call,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The type, for example config.changed.")],
    ref: Annotated[
        str | None, typer.Option("--ref", metavar="JSON", help="What it is about: a JSON object, @FILE or -.")
    ] = None,
) -> Action:
    """Send a signal to devices."""
    params = {"type": type, "ref": {} if ref is None else json_object(ref, "--ref")}
    return Action(call.client.devices.bulk, "send_signal", f"sends {type} to", "devices", params)


@BULK.acts("assign-certificate", devices.COLUMNS, filters.DEVICES)
def assign_certificate(
    call: Call,
    cert_id: Annotated[int, typer.Argument(metavar="ID", parser=whole_number, help="The certificate's id.")],
) -> Action:
    """Assign a certificate to devices."""
    params = {"cert_id": cert_id}
    return Action(
        call.client.devices.bulk, "assign_certificate", f"assigns certificate {cert_id} to", "devices", params
    )


@BULK.acts("assign-ca", devices.COLUMNS, filters.DEVICES)
def assign_ca(
    call: Call,
    ca_id: Annotated[int, typer.Argument(metavar="ID", parser=whole_number, help="The authority's id.")],
) -> Action:
    """Let devices trust an authority."""
    params = {"ca_id": ca_id}
    return Action(call.client.devices.bulk, "assign_ca", f"makes authority {ca_id} trusted by", "devices", params)


@BULK.acts("renew-certificates", devices.COLUMNS, filters.DEVICES)
def renew_certificates(
    call: Call,
    expiring_within_seconds: Annotated[
        str | None, typer.Option("--expiring-within", metavar="TIME", help="Only those that end within: 30d.")
    ] = None,
    validity_seconds: Annotated[
        str | None, typer.Option("--valid-for", metavar="TIME", help="How long: 90d. Default: their account's.")
    ] = None,
) -> Action:
    """Issue the certificates of devices again, each once."""
    within = None if expiring_within_seconds is None else parse_duration(expiring_within_seconds, "--expiring-within")
    validity = None if validity_seconds is None else parse_duration(validity_seconds, "--valid-for")
    params = given(expiring_within_seconds=within, validity_seconds=validity)
    return Action(call.client.devices.bulk, "renew_certificates", "renews the certificates of", "devices", params)


@BULK.acts("revoke-devices", devices.COLUMNS, filters.DEVICES)
def revoke_devices(call: Call) -> Action:
    """Revoke devices permanently. They must be enrolled again."""
    return Action(call.client.devices.bulk, "revoke", "permanently revokes", "devices", {})


@BULK.acts("send-command", miners.COLUMNS, filters.BULK_MINERS)
def send_command(
    call: Call,
    command_type: Annotated[str, typer.Argument(metavar="TYPE", help="For example MINER_RESTART, or restart.")],
    params: CommandParamsOption = None,
    priority: PriorityOption = None,
    ttl_sec: TtlOption = None,
    max_retries: Annotated[
        int | None,
        typer.Option("--max-retries", metavar="N", help="How often a failed attempt is repeated.", parser=whole_number),
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", metavar="KEY", help="At most one active command has this key.")
    ] = None,
) -> Action:
    """Send a command to each of many miners. The job shows how many succeeded."""
    fields = command_params(command_type, params, priority, ttl_sec)
    fields |= given(max_retries=max_retries, dedupe_key=dedupe_key)
    return Action(call.client.miners.bulk, "send", f"sends {command_type} to", "miners", fields)


def command_params(command_type: str, params: str | None, priority: int | None, ttl: str | None) -> dict[str, Any]:
    """The fields of a command that the flags give."""
    return given(
        command_type=command_type,
        params=None if params is None else json_object(params, "--params"),
        priority=priority,
        ttl_sec=None if ttl is None else parse_duration(ttl, "--ttl"),
    )


@BULK.acts("cancel-commands", commands.COLUMNS, filters.BULK_COMMANDS)
def cancel_commands(call: Call, reason: ReasonOption = None) -> Action:
    """Cancel active commands, even dispatched ones: their ACKs are then refused."""
    return Action(call.client.commands.bulk, "cancel", "cancels", "commands", given(reason=reason))


@BULK.acts("retry-commands", commands.COLUMNS, filters.BULK_COMMANDS)
def retry_commands(call: Call, ttl_sec: TtlOption = None) -> Action:
    """Create commands anew that failed, expired or were cancelled."""
    params = given(ttl_sec=None if ttl_sec is None else parse_duration(ttl_sec, "--ttl"))
    return Action(call.client.commands.bulk, "retry", "creates anew", "commands", params)


@BULK.acts("release-events", events.COLUMNS, filters.BULK_ERRORED_EVENTS)
def release_events(call: Call) -> Action:
    """Release errored events: they are delivered again, unchanged."""
    return Action(call.client.events.bulk, "release", "releases", "events", {})


@BULK.acts("drop-events", events.COLUMNS, filters.BULK_ERRORED_EVENTS)
def drop_events(call: Call) -> Action:
    """Drop errored events: they are never delivered again."""
    return Action(call.client.events.bulk, "drop", "permanently drops", "events", {})


@BULK.acts("redeliver-events", events.COLUMNS, filters.BULK_EVENTS)
def redeliver_events(call: Call) -> Action:
    """Deliver events again that a client has acknowledged and lost."""
    return Action(call.client.events.bulk, "redeliver", "delivers again", "events", {})


@BULK.acts("retry-outbox", outbox.COLUMNS, filters.BULK_OUTBOX)
def retry_outbox(call: Call) -> Action:
    """Try FAILED rows of the server's own outbox again."""
    return Action(call.client.outbox.bulk, "retry", "tries again", "rows", {})
