"""`restante device`: the devices that poll."""

from collections.abc import Callable
from typing import Annotated

import typer

from restante.cli.database import open_database
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import Columns, format_time, print_items, print_record, print_result
from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.identity.people import users
from restante.updates.devices import devices
from restante.updates.devices.devices import Device

app = typer.Typer(no_args_is_help=True, help="Devices that poll.")

DeviceArgument = Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The device's id.")]


def _time_of(name: str) -> Callable[[Device], str]:
    """A column: the attribute of that name, a time in seconds."""

    def text(device: Device) -> str:
        seconds = getattr(device, name)
        return format_time(None if seconds is None else seconds * 1000)

    return text


_COLUMNS: Columns = {
    "id": "id",
    "user": "user_id",
    "name": "name",
    "platform": "platform",
    "version": lambda device: device.agent_version or device.app_version,
    "status": "status",
    "last seen": _time_of("last_seen_at"),
}
_FIELDS: Columns = {
    "id": "id",
    "user": "user_id",
    "public id": "device_public_id",
    "name": "name",
    "status": "status",
    "platform": "platform",
    "model": "model",
    "app version": "app_version",
    "agent version": "agent_version",
    "key fingerprint": "device_keyfp_b64",
    "created": _time_of("created_at"),
    "updated": _time_of("updated_at"),
    "last seen": _time_of("last_seen_at"),
    "revoked": _time_of("revoked_at"),
}


@app.command("list")
def list_devices(
    user: Annotated[str | None, typer.Option("--user", help="Only devices of this user: id or e-mail.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List devices in the order of their ids."""
    with open_database(data) as database:
        found = database.read_now(_page, user, after, limit)
    print_items(found, _COLUMNS, json, when_empty="No devices.")


@app.command("show")
def show(device_id: DeviceArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show all fields of one device."""
    with open_database(data) as database:
        device = database.read_now(devices.get, device_id)
    print_record(device, _FIELDS, json)


@app.command("revoke")
def revoke(device_id: DeviceArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Revoke a device permanently, at once."""
    with open_database(data) as database:
        device = database.write_now(devices.revoke, device_id)
    print_result(device, f"Device {device_id} is revoked.", json)


def _page(conn: Connection, user: str | None, after: int, limit: int) -> list[Device]:
    return devices.list_page(conn, None if user is None else _user_id(conn, user), after, limit)


def _user_id(conn: Connection, text: str) -> int:
    if "@" in text:
        found = users.find_by_email(conn, text)
    elif text.isdecimal() and int(text) <= ID_MAX:
        found = users.find_by_id(conn, int(text))
    else:
        raise BadInput("user", "an id or an e-mail address")
    if found is None:
        raise NotFound(f"there is no user {text}")
    return found.id
