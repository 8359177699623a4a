"""`restante config` and `restante signal`: install configs of devices, and signals to them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote.arguments import DeviceArgument, given, path_of
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import moment
from restante.cli.remote.values import json_file, json_object, whole_number
from restante.core.errors import BadInput

CONFIG = Noun("Install configs of devices.")
SIGNAL = Noun("Signals to devices.")
config_app, signal_app = CONFIG.app, SIGNAL.app

VersionOption = Annotated[
    int | None,
    typer.Option("--version", metavar="N", parser=whole_number, help="An older version. Default: the newest."),
]
NoteOption = Annotated[str | None, typer.Option("--note", metavar="TEXT", help="Why it is changed, for the history.")]
ConfigArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The config as JSON; - for standard input.")]


@CONFIG.shows(
    {
        "device": "user_device_id",
        "version": "version",
        "installs": "installs",
        "hash": "installs_hash",
        "after update": "after_update_script",
        "note": "change_note",
        # The newest config, and a version of the history.
        "by": Column(lambda config: config.get("updated_by") or config.get("changed_by")),
        "changed": Column(lambda config: moment(config.get("updated_at") or config["created_at"])),
    }
)
def show_config(call: Call, device: DeviceArgument, version: VersionOption = None) -> Item:
    """Show the install config of a device."""
    path = path_of(call, device)
    if version is not None:
        return dict(call.client.configs.version(*path, version))
    return dict(call.client.configs.get(*path))


@CONFIG.lists(
    {"version": "version", "changed": when("created_at"), "by": "changed_by", "note": "change_note"},
    empty="There is no version yet.",
)
def list_versions(call: Call, device: DeviceArgument) -> Page:
    """List the versions of a device's install config."""
    return call.page(call.client.configs.history_page, *path_of(call, device))


@CONFIG.does("update", "Device {user_device_id} has a new install config, version {version}.")
def update(call: Call, device: DeviceArgument, installs: ConfigArgument, change_note: NoteOption = None) -> Any:
    """Replace the install config of a device with that of a file. The device gets a signal."""
    return call.client.configs.put(*path_of(call, device), **config_of(installs, change_note))


def config_of(file: Path, note: str | None, field: str = "FILE") -> dict[str, Any]:
    """The fields of an install config in a file."""
    found = json_file(file, field)
    unknown = found.keys() - {"installs", "change_note", "after_update_script"}
    if unknown or "installs" not in found:
        raise BadInput(field, "an object with installs and, if wanted, change_note and after_update_script")
    return {**found, **given(change_note=note)}


@CONFIG.does("restore", "Device {user_device_id} has the config of version {restored} again, as version {version}.")
def restore(
    call: Call,
    device: DeviceArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", parser=whole_number, help="The version to restore.")],
    change_note: NoteOption = None,
) -> Any:
    """Make an older version the newest one. The device gets a signal."""
    changed = call.client.configs.restore(*path_of(call, device), version=version, **given(change_note=change_note))
    return {**changed, "restored": version}


LINES: Columns = {
    "n": "n",
    "type": "type",
    "ref": "ref",
    "state": "state",
    "queued": when("queued_at"),
    "published": when("published_at"),
    "received": when("received_at"),
    "applied": when("applied_at"),
    "failure": "failure",
}


@SIGNAL.lists(LINES, empty="No signals.", has_since=True)
def list_signals(call: Call, device: DeviceArgument) -> Page:
    """List the signals to a device and how far each has come, newest first."""
    return call.page(call.client.devices.signals_page, *path_of(call, device), since_field="queued_at")


@SIGNAL.does("send", "Signal {type} for device {device_id} is in the outbox.")
def send(
    call: Call,
    device: DeviceArgument,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The type, for example config.changed.")],
    ref: Annotated[
        str | None, typer.Option("--ref", metavar="JSON", help="What it is about: a JSON object, @FILE or -.")
    ] = None,
) -> Any:
    """Send a signal to a device."""
    about = {} if ref is None else json_object(ref, "--ref")
    return call.client.signals.send(*path_of(call, device), type=type, ref=about)
