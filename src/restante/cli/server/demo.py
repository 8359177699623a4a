"""`restante demo`: a server with a simulated fleet on a temporary folder, to look at."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.output import print_error
from restante.core.errors import BadInput
from restante.server.config.setting_types import ListenAddress

ListenOption = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="A loopback address; port 0: a free one.")
]


def demo(
    listen: ListenOption = "127.0.0.1:0",
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Other names and another course.")] = 1,
    devices: Annotated[
        int, typer.Option("--devices", metavar="N", min=32, max=2000, help="Number of simulated devices.")
    ] = 200,
    miners: Annotated[
        int, typer.Option("--miners", metavar="N", min=6, max=300, help="Number of simulated miners.")
    ] = 60,
    folder: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Use this empty folder, and keep it.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
) -> None:
    """Run a server with a simulated fleet on a temporary folder, to look at, until Ctrl-C."""
    # Imported here so that wrong usage does not wait for it.
    from restante.demo.demo import DemoOptions, run

    _check_loopback(listen)
    # One of them is a real `restante-agent device`.
    options = DemoOptions(listen, seed, devices - 1, miners, folder, not no_browser)
    typer.echo("Starting a server, sites, devices and clients …")
    code = asyncio.run(run(options, typer.echo, print_error))
    if code:
        raise typer.Exit(code)


def _check_loopback(listen: str) -> None:
    """The passwords are on the screen, and the receivers' keys in a folder: no other machine may reach it."""
    try:
        is_loopback = ListenAddress().parse(listen).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise BadInput("listen", "an address of the loopback interface, for example 127.0.0.1:8080")
