"""`restante device`: devices that poll, what they have received, and their tags."""

import base64
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.output import Column, Columns, identity, joined, printable, when
from restante.cli.remote import filters
from restante.cli.remote.arguments import DeviceArgument, TagsArgument, UserOption, given, path_of, tags_of, user_id
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import moment, normalised
from restante.core.errors import BadInput

DEVICE = Noun("Devices that poll.")
app = DEVICE.app

WATCH_SECONDS = 1.0
SIGNALS_MAX = 100
COLUMNS: Columns = {
    "id": "id",
    "user": "user_id",
    "name": "name",
    "platform": "platform",
    "version": "agent_version",
    "status": Column(lambda device: "overdue" if device.get("is_overdue") else device["status"]),
    "config": "config_state",
    "last seen": when("last_seen_at"),
    "tags": joined("tags"),
}


def _of(*path: str, is_time: bool = False) -> Column:
    """A field of the delivery state."""

    def read(device: Any) -> Any:
        value = device.get("delivery")
        for name in path:
            value = None if value is None else value.get(name)
        return moment(value) if is_time else value

    return Column(read)


FIELDS: Columns = {
    "id": "id",
    "user": "user_id",
    "name": "name",
    "public id": identity("device_public_id"),
    "status": "status",
    "tags": joined("tags"),
    "platform": "platform",
    "model": "model",
    "app version": "app_version",
    "agent version": "agent_version",
    "last seen": when("last_seen_at"),
    "overdue": _of("is_overdue"),
    "config": _of("config", "state"),
    "config wanted": _of("config", "wanted"),
    "config fetched": _of("config", "fetched"),
    "config applied": _of("config", "applied"),
    "config failed": _of("config", "failed"),
    "config failure": _of("config", "failure"),
    "signals to confirm": _of("lag_signals"),
    "oldest of them, s": _of("lag_seconds"),
    "signals queued": _of("queued"),
    "undeliverable": _of("undeliverable"),
    "last report": _of("last_report_at", is_time=True),
    "key fingerprint": identity("device_keyfp_b64"),
    "created": when("created_at"),
    "updated": when("updated_at"),
    "revoked": when("revoked_at"),
}


@DEVICE.lists(
    COLUMNS,
    empty="No devices.",
    filters=filters.DEVICES,
    counts=lambda call: call.client.devices.counts(**call.filters),
)
def list_devices(call: Call) -> Page:
    """List devices: all, or those that match every filter."""
    return call.page(call.client.devices.list_page, **call.filters)


DEVICE.exports(
    "devices",
    lambda call, format: call.client.devices.export(format=format, **call.filters),
    filters=filters.DEVICES,
)


@DEVICE.shows(FIELDS)
def show(call: Call, device: DeviceArgument) -> Item:
    """Show a device, and what it has received."""
    return dict(call.client.devices.get_of_user(*path_of(call, device)))


@DEVICE.does("why", "{sentence}")
def why(call: Call, device: DeviceArgument) -> Any:
    """Explain in one sentence what a device has not got, and why."""
    return call.client.devices.why(*path_of(call, device))


@DEVICE.does("create", "Device {id} of user {user_id}. Shown this once:\n{tokens}")
def create(
    call: Call,
    device_public_id: Annotated[str, typer.Argument(metavar="UUID", help="The id that the device has chosen.")],
    dev_pk: Annotated[
        Path, typer.Option("--public-key", metavar="FILE", help="Its X25519 public key: base64 of 32 bytes, or PEM.")
    ],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its name.")] = None,
    platform: Annotated[str | None, typer.Option("--platform", metavar="NAME", help="Its platform.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Its model.")] = None,
    app_version: Annotated[str | None, typer.Option("--app-version", metavar="TEXT", help="Its program.")] = None,
    user: UserOption = None,
) -> Any:
    """Register a device in place of itself, and print its tokens. Most devices register with a code in a browser."""
    fields = given(name=name, platform=platform, model=model, app_version=app_version)
    made = call.client.devices.register(
        user_id(call, user), device_public_id=device_public_id, dev_pk=_public_key(dev_pk), **fields
    )
    session = made["session"]
    tokens = f"access_token   {session['access_token']}\nrefresh_token  {session['refresh_token']}"
    return made if call.is_json else {**made["device"], "tokens": tokens}


def _public_key(path: Path) -> str:
    text = path.read_text("utf-8").strip()
    if not text.startswith("-----BEGIN"):
        return text
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text.encode())
    except ValueError:
        key = None
    if not isinstance(key, X25519PublicKey):
        raise BadInput("--public-key", "an X25519 public key: base64 of 32 bytes, or PEM")
    return base64.b64encode(key.public_bytes_raw()).decode()


@DEVICE.does("tag", "Tags of the device: {tags}")
def tag(call: Call, device: DeviceArgument, tag: TagsArgument) -> Any:
    """Add tags to a device."""
    path = path_of(call, device)
    return tags_of([call.client.devices.tag(*path, each) for each in tag])


@DEVICE.does("untag", "Tags of the device: {tags}")
def untag(call: Call, device: DeviceArgument, tag: TagsArgument) -> Any:
    """Remove tags from a device."""
    path = path_of(call, device)
    return tags_of([call.client.devices.untag(*path, each) for each in tag])


@DEVICE.does("revoke", "Device {id} is revoked.", asks=True)
def revoke(call: Call, device: DeviceArgument) -> Any:
    """Revoke a device permanently, at once."""
    path = path_of(call, device)
    found = call.client.devices.get_of_user(*path)
    call.confirm(f"This revokes device {found['id']} ({found.get('name') or 'no name'}): it must be enrolled again.")
    return call.client.devices.revoke(*path)


@DEVICE.lists(
    {"n": "n", "at": when("at"), "events": Column(lambda report: report["events"])},
    empty="The device has reported nothing.",
    name="reports",
)
def reports(call: Call, device: DeviceArgument) -> Page:
    """List the last reports of a device's agent, newest first."""
    return call.page(call.client.devices.reports_page, *path_of(call, device), since_field="at")


@DEVICE.runs("watch")
def watch(call: Call, device: DeviceArgument) -> None:
    """Follow a device: its state and its signals, one line for each change, until Ctrl-C."""
    path = path_of(call, device)
    seen: dict[str, Item] = {}
    try:
        while True:
            found: list[tuple[str, Any]] = [("device", call.client.devices.get_of_user(*path))]
            lines = call.client.devices.signals_page(*path, limit=SIGNALS_MAX)["items"]
            found += [(f"signal {line['queued_at']} {line['type']}", line) for line in reversed(lines)]
            for name, item in found:
                if _changes(item) != seen.get(name):
                    seen[name] = _changes(item)
                    _print_change(call, name.split(" ")[0], item)
            sys.stdout.flush()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def _changes(item: Any) -> Item:
    """The item without what grows by itself."""
    return {**item, "delivery": {**item["delivery"], "lag_seconds": None}} if "delivery" in item else dict(item)


def _print_change(call: Call, kind: str, item: Any) -> None:
    value = normalised(item)
    if call.is_json:
        typer.echo(msgspec.json.encode({kind: value}).decode())
        return
    if kind == "device":
        delivery = value["delivery"]
        state = f"{value['status']}, config {delivery['config']['state']}, {delivery['lag_signals']} to confirm"
        line = (value.get("last_seen_at") or "never seen", "device", value["name"], state)
    else:
        at = value.get(f"{value['state']}_at") or value["queued_at"]
        line = (at, "signal", value["type"], value["state"])
    typer.echo("\t".join(printable(str(each)) for each in line))
