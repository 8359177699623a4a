"""`restante signal`: send a signal to a device, through the same outbox as every other signal."""

from typing import Annotated, Any

import msgspec
import typer

from restante.cli.database import open_database
from restante.cli.options import ID_MAX, DataOption, JsonOption
from restante.cli.output import print_result
from restante.core.errors import BadInput, Conflict
from restante.database.connection import Connection
from restante.delivery.log.signals import Signal, check_signal
from restante.delivery.outbox import outbox
from restante.updates.devices import devices

app = typer.Typer(no_args_is_help=True, help="Signals to devices.")


@app.command("send")
def send(
    device_id: Annotated[int, typer.Argument(metavar="DEVICE", min=0, max=ID_MAX, help="The device's id.")],
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="The type, for example install.updated.")],
    ref: Annotated[str, typer.Option("--ref", metavar="JSON", help="What the signal refers to: a JSON object.")] = "{}",
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Send a signal to a device. A running server delivers it."""
    ref_object = _object_in(ref)
    with open_database(data) as database:
        signal = database.write_now(_enqueue, device_id, kind, ref_object)
    print_result(
        {"device_id": device_id, "type": signal.type, "ts_ms": signal.ts_ms, "ref": signal.ref},
        f"The signal {signal.type} is on its way to device {device_id}.",
        json,
    )


def _enqueue(conn: Connection, device_id: int, kind: str, ref: dict[str, Any]) -> Signal:
    if devices.get(conn, device_id).status == "revoked":
        raise Conflict(f"device {device_id} is revoked: it polls no more")
    signal = check_signal(kind, conn.now_ms, ref)
    outbox.enqueue(conn, device_id, signal)
    return signal


def _object_in(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadInput("ref", "a JSON object") from None
