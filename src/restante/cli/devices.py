"""`restante device`: the devices that poll."""

from typing import Annotated

import typer

from restante.cli.opening import opened
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import moment, show_json, show_record, show_table
from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.identity import users
from restante.updates import devices
from restante.updates.devices import Device

app = typer.Typer(no_args_is_help=True, help="Devices that poll.")

DeviceArgument = Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The device's id.")]


@app.command("list")
def list_devices(
    user: Annotated[str | None, typer.Option("--user", help="Only this user's: id or e-mail.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List devices in the order of their ids."""
    with opened(data) as database:
        found = database.read_now(_page, user, after, limit)
    if json:
        show_json(found)
    else:
        show_table(
            ("id", "user", "name", "platform", "version", "status", "last seen"),
            [_summary(device) for device in found],
            when_empty="No devices.",
        )


@app.command("show")
def show(device_id: DeviceArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show everything about one device."""
    with opened(data) as database:
        device = database.read_now(devices.get, device_id)
    if json:
        show_json(device)
    else:
        show_record(_details(device))


@app.command("revoke")
def revoke(device_id: DeviceArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """End a device's access for good, at once."""
    with opened(data) as database:
        device = database.write_now(devices.revoke, device_id)
    if json:
        show_json(device)
    else:
        typer.echo(f"Device {device_id} is revoked.")


def _page(conn: Connection, user: str | None, after: int, limit: int) -> list[Device]:
    return devices.list_page(conn, None if user is None else _user_id(conn, user), after, limit)


def _user_id(conn: Connection, text: str) -> int:
    if "@" in text:
        found = users.by_email(conn, text)
    elif text.isdecimal() and int(text) <= ID_MAX:
        found = users.by_id(conn, int(text))
    else:
        raise BadInput("user", "an id or an e-mail address")
    if found is None:
        raise NotFound(f"there is no user {text}")
    return found.id


def _summary(device: Device) -> tuple[object, ...]:
    return (
        device.id,
        device.user_id,
        device.name,
        device.platform,
        device.agent_version or device.app_version,
        device.status,
        _moment(device.last_seen_at),
    )


def _details(device: Device) -> list[tuple[str, object]]:
    return [
        ("id", device.id),
        ("user", device.user_id),
        ("public id", device.device_public_id),
        ("name", device.name),
        ("status", device.status),
        ("platform", device.platform),
        ("model", device.model),
        ("app version", device.app_version),
        ("agent version", device.agent_version),
        ("key fingerprint", device.device_keyfp_b64),
        ("created", _moment(device.created_at)),
        ("updated", _moment(device.updated_at)),
        ("last seen", _moment(device.last_seen_at)),
        ("revoked", _moment(device.revoked_at)),
    ]


def _moment(seconds: int | None) -> str:
    return moment(None if seconds is None else seconds * 1000)
