"""`restante rollout`: make all devices poll faster for a limited time."""

from typing import Annotated

import typer

from restante.cli.database import open_database
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import format_time, print_result
from restante.updates.polling import rollout
from restante.updates.polling.rollout import INTERVAL_SECONDS, INTERVAL_SECONDS_MAX, ROLLOUT_SECONDS_MAX, Rollout

app = typer.Typer(no_args_is_help=True, help="Faster polling of all devices during a rollout.")


@app.command("start")
def start(
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=ROLLOUT_SECONDS_MAX // 60, help="The duration.", show_default=False)
    ],
    interval: Annotated[
        int, typer.Option("--interval", min=1, max=INTERVAL_SECONDS_MAX, help="Seconds between two polls of a device.")
    ] = INTERVAL_SECONDS,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Start a rollout: every device polls at its interval until it ends by itself."""
    with open_database(data) as database:
        _print(database.write_now(rollout.start, minutes * 60, interval), json)


@app.command("stop")
def stop(data: DataOption = None, json: JsonOption = False) -> None:
    """Stop the rollout now; devices return to their usual interval."""
    with open_database(data) as database:
        database.write_now(rollout.stop)
    _print(None, json)


@app.command("show")
def show(data: DataOption = None, json: JsonOption = False) -> None:
    """Show whether a rollout is on."""
    with open_database(data) as database:
        _print(database.read_now(rollout.current), json)


def _print(rollout: Rollout | None, json: bool) -> None:
    if rollout is None:
        print_result({"active": False}, "No rollout is on.", json)
        return
    until = format_time(int(rollout.until * 1000))
    text = f"A rollout is on until {until}: devices poll every {rollout.interval_seconds} s."
    print_result({"active": True, **rollout._asdict()}, text, json)
