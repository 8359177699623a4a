"""`restante signal`: tell a device something, through the same outbox as every other change."""

from typing import Annotated, Any

import msgspec
import typer

from restante.cli.opening import opened
from restante.cli.options import ID_MAX, DataOption, JsonOption
from restante.cli.output import show_json
from restante.core.errors import BadInput, Conflict
from restante.database.connection import Connection
from restante.delivery import outbox
from restante.delivery.signals import Signal, checked_signal
from restante.updates import devices

app = typer.Typer(no_args_is_help=True, help="Signals to devices.")


@app.command("send")
def send(
    device_id: Annotated[int, typer.Argument(metavar="DEVICE", min=0, max=ID_MAX, help="The device's id.")],
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="What happened, for example install.updated.")],
    ref: Annotated[str, typer.Option("--ref", metavar="JSON", help="What it is about: a JSON object.")] = "{}",
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Send a signal to a device; it is delivered as soon as a server runs."""
    about = _object_in(ref)
    with opened(data) as database:
        signal = database.write_now(_enqueue, device_id, kind, about)
    if json:
        show_json({"device_id": device_id, "type": signal.type, "ts_ms": signal.ts_ms, "ref": signal.ref})
    else:
        typer.echo(f"The signal {signal.type} is on its way to device {device_id}.")


def _enqueue(conn: Connection, device_id: int, kind: str, ref: dict[str, Any]) -> Signal:
    if devices.get(conn, device_id).status == "revoked":
        raise Conflict(f"device {device_id} is revoked: it polls no more")
    signal = checked_signal(kind, conn.now_ms, ref)
    outbox.enqueue(conn, device_id, signal)
    return signal


def _object_in(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadInput("ref", "a JSON object") from None
