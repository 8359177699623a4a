"""`restante miner`: the machines that commands are for."""

from typing import Annotated

import typer

from restante.cli.edge import SiteArgument, SiteOption, ZoneOption, actor, opened_edge, show_next
from restante.cli.opening import opened
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_table
from restante.commands import miners
from restante.commands.miners import MinerWish
from restante.web.paging import Window

app = typer.Typer(no_args_is_help=True, help="Miners at sites.")


@app.command("add")
def add(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="What the miner is called.")],
    zone: ZoneOption = None,
    miner_id: Annotated[
        int | None, typer.Option("--id", min=1, max=2**53, help="The id it already has; without it, the next one free.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a miner to a site."""
    with opened_edge(data) as edge:
        miner = edge.database.write_now(miners.add, edge.trail, MinerWish(site, name, zone, miner_id), actor())
    if json:
        show_json(miner)
    else:
        typer.echo(f"Miner {miner.id} of site {miner.site_id} is {miner.name}, in zone {miner.zone_id}.")


@app.command("list")
def list_miners(
    site: SiteOption = None,
    zone: ZoneOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List miners in the order of their ids."""
    with opened(data) as database:
        page = database.read_now(miners.list_page, site, zone, Window(limit, after))
    if json:
        show_json(page)
        return
    rows = [(miner.id, miner.site_id, miner.zone_id, miner.name, miner.created_at) for miner in page.items]
    show_table(("id", "site", "zone", "name", "created"), rows, when_empty="No miners.")
    show_next(page.next)
