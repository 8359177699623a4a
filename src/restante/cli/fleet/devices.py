"""`restante device`, `restante config` and `restante signal`: devices that poll, their install configs and signals."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.output import Columns, when
from restante.cli.remote.arguments import DeviceArgument, UserOption, json_object, owner_of, user_id, whole_number
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import normalised
from restante.core.errors import BadInput

DEVICE = Noun("Devices that poll.")
CONFIG = Noun("Install configs of devices.")
SIGNAL = Noun("Signals to devices.")
device_app, config_app, signal_app = DEVICE.app, CONFIG.app, SIGNAL.app

WATCH_SECONDS = 1.0
COLUMNS: Columns = {
    "id": "id",
    "user": "user_id",
    "name": "name",
    "platform": "platform",
    "version": lambda device: device.get("agent_version") or device.get("app_version"),
    "status": "status",
    "last seen": when("last_seen_at"),
}
FIELDS: Columns = {
    **COLUMNS,
    "public id": "device_public_id",
    "model": "model",
    "app version": "app_version",
    "agent version": "agent_version",
    "key fingerprint": "device_keyfp_b64",
    "created": when("created_at"),
    "updated": when("updated_at"),
    "revoked": when("revoked_at"),
}


@DEVICE.lists(COLUMNS, empty="No devices.")
def list_devices(call: Call, user: UserOption = None) -> Page:
    """List devices by id: of every user, or of one."""
    if user is None:
        return call.page(call.client.devices.list_page)
    return call.page(call.client.devices.list_of_user_page, user_id(call, user))


@DEVICE.shows(FIELDS)
def show(call: Call, device: DeviceArgument) -> Item:
    """Show a device."""
    return dict(call.client.devices.get_of_user(owner_of(call, device), device))


@DEVICE.does("revoke", "Device {id} is revoked.", asks=True)
def revoke(call: Call, device: DeviceArgument) -> Any:
    """Revoke a device permanently, at once."""
    owner = owner_of(call, device)
    found = call.client.devices.get_of_user(owner, device)
    call.confirm(f"This revokes device {device} ({found.get('name') or 'no name'}): it must be enrolled again.")
    return call.client.devices.revoke(owner, device)


@DEVICE.runs("watch")
def watch(call: Call, device: DeviceArgument) -> None:
    """Follow a device: its state and the signals on their way to it, one line for each change, until Ctrl-C."""
    seen: dict[str, Item] = {}
    try:
        while True:
            found: list[tuple[str, Any]] = [("device", call.client.devices.get(device))]
            rows = call.client.outbox.list_page(device_id=device, limit=100)["items"]
            found += [(f"signal {row['id']}", row) for row in reversed(rows)]
            for name, item in found:
                if seen.get(name) != item:
                    seen[name] = dict(item)
                    _print_change(call, name, item)
            sys.stdout.flush()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def _print_change(call: Call, name: str, item: Any) -> None:
    value = normalised(item)
    if call.is_json:
        typer.echo(msgspec.json.encode({name.split(" ")[0]: value}).decode())
        return
    what = value.get("event_kind", "")
    at = value.get("delivered_at") or value.get("created_at") if what else value.get("last_seen_at")
    typer.echo("\t".join(str(each) for each in (at or "", name, what, value["status"]) if each != ""))


VersionOption = Annotated[
    int | None,
    typer.Option("--version", metavar="N", parser=whole_number, help="An older version. Default: the newest."),
]
NoteOption = Annotated[str | None, typer.Option("--note", help="Why it is changed, for the history.")]


@CONFIG.shows()
def show_config(call: Call, device: DeviceArgument, version: VersionOption = None) -> Item:
    """Show the install config of a device."""
    owner = owner_of(call, device)
    if version is not None:
        return dict(call.client.configs.version(owner, device, version))
    return dict(call.client.configs.get(owner, device))


@CONFIG.lists(
    {"version": "version", "changed": when("created_at"), "by": "changed_by", "note": "change_note"},
    empty="There is no version yet.",
)
def list_versions(call: Call, device: DeviceArgument) -> Page:
    """List the versions of a device's install config."""
    return call.page(call.client.configs.history_page, owner_of(call, device), device)


@CONFIG.does("update", "Device {device_id} has a new install config.")
def update(
    call: Call,
    device: DeviceArgument,
    installs: Annotated[Path, typer.Argument(metavar="FILE", help="The config as JSON; - for standard input.")],
    change_note: NoteOption = None,
) -> Any:
    """Replace the install config of a device with that of a file. The device gets a signal."""
    given = json_object("-" if str(installs) == "-" else f"@{installs}", "FILE")
    unknown = given.keys() - {"installs", "change_note", "after_update_script"}
    if unknown or "installs" not in given:
        raise BadInput("FILE", "an object with installs and, if wanted, change_note and after_update_script")
    if change_note is not None:
        given["change_note"] = change_note
    changed: Any = call.client.configs.put(owner_of(call, device), device, **given)
    return {"device_id": device, **(changed or {})}


@CONFIG.does("restore", "Device {device_id} has the config of version {restored} again.")
def restore(
    call: Call,
    device: DeviceArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", parser=whole_number, help="The version to restore.")],
    change_note: NoteOption = None,
) -> Any:
    """Make an older version the newest one. The device gets a signal."""
    given: dict[str, Any] = {} if change_note is None else {"change_note": change_note}
    changed: Any = call.client.configs.restore(owner_of(call, device), device, version=version, **given)
    return {"device_id": device, "restored": version, **(changed or {})}


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
    sent: Any = call.client.signals.send(owner_of(call, device), device, type=type, ref=about)
    return {"device_id": device, "type": type, **(sent or {})}
