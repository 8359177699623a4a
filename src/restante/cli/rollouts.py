"""`restante rollout`: let the whole fleet poll faster for a while."""

from typing import Annotated

import typer

from restante.cli.opening import opened
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import moment, show_json
from restante.updates import rollout
from restante.updates.rollout import INTERVAL_SECONDS, INTERVAL_SECONDS_MAX, ROLLOUT_SECONDS_MAX, Rollout

app = typer.Typer(no_args_is_help=True, help="The fleet's pace during a rollout.")


@app.command("start")
def start(
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=ROLLOUT_SECONDS_MAX // 60, help="For how long.", show_default=False)
    ],
    interval: Annotated[
        int, typer.Option("--interval", min=1, max=INTERVAL_SECONDS_MAX, help="Seconds between two polls of a device.")
    ] = INTERVAL_SECONDS,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Ask every device to poll at the rollout's pace; it ends by itself."""
    with opened(data) as database:
        _show(database.write_now(rollout.start, minutes * 60, interval), json)


@app.command("stop")
def stop(data: DataOption = None, json: JsonOption = False) -> None:
    """Return to the ordinary pace now."""
    with opened(data) as database:
        database.write_now(rollout.stop)
    _show(None, json)


@app.command("show")
def show(data: DataOption = None, json: JsonOption = False) -> None:
    """Say whether a rollout is on."""
    with opened(data) as database:
        _show(database.read_now(rollout.current), json)


def _show(found: Rollout | None, json: bool) -> None:
    if json:
        show_json({"active": found is not None, **(found._asdict() if found else {})})
    elif found is None:
        typer.echo("No rollout is on.")
    else:
        until = moment(int(found.until * 1000))
        typer.echo(f"A rollout is on until {until}: devices poll every {found.interval_seconds} s.")
