"""`restante poll-boost`: make all devices poll faster for a limited time."""

from typing import Annotated

import typer

from restante.cli.database import open_database
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import format_time, print_result
from restante.updates.polling import poll_boost
from restante.updates.polling.poll_boost import BOOST_SECONDS_MAX, INTERVAL_SECONDS, INTERVAL_SECONDS_MAX, PollBoost

app = typer.Typer(no_args_is_help=True, help="Faster polling of all devices for a limited time.")


@app.command("start")
def start(
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=BOOST_SECONDS_MAX // 60, help="The duration.", show_default=False)
    ],
    interval: Annotated[
        int, typer.Option("--interval", min=1, max=INTERVAL_SECONDS_MAX, help="Seconds between two polls of a device.")
    ] = INTERVAL_SECONDS,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Start a poll boost: every device polls at its interval until it ends by itself."""
    with open_database(data) as database:
        _print(database.write_now(poll_boost.start, minutes * 60, interval), json)


@app.command("stop")
def stop(data: DataOption = None, json: JsonOption = False) -> None:
    """Stop the poll boost now; devices return to their usual interval."""
    with open_database(data) as database:
        database.write_now(poll_boost.stop)
    _print(None, json)


@app.command("show")
def show(data: DataOption = None, json: JsonOption = False) -> None:
    """Show whether a poll boost is on."""
    with open_database(data) as database:
        _print(database.read_now(poll_boost.current), json)


def _print(boost: PollBoost | None, json: bool) -> None:
    if boost is None:
        print_result({"active": False}, "No poll boost is on.", json)
        return
    until = format_time(int(boost.until * 1000))
    text = f"A poll boost is on until {until}: devices poll every {boost.interval_seconds} s."
    print_result({"active": True, **boost._asdict()}, text, json)
