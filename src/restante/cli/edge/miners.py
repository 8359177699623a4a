"""`restante miner`: the machines that commands act on."""

from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.edge.context import SiteArgument, SiteOption, ZoneOption, open_edge
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import print_page, print_result
from restante.commands.sites import miners
from restante.commands.sites.miners import MinerFilter, MinerRequest
from restante.database.paging import PageRequest

app = typer.Typer(no_args_is_help=True, help="Miners at sites.")


@app.command("add")
def add(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="The name of the miner.")],
    zone: ZoneOption = None,
    miner_id: Annotated[
        int | None,
        typer.Option("--id", min=1, max=2**53, help="The id that it already has. Default: the next free id."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a miner to a site."""
    with open_edge(data) as edge:
        miner = edge.database.write_now(miners.add, edge.trail, MinerRequest(site, name, zone, miner_id), cli_actor())
    print_result(miner, f"Miner {miner.id} of site {miner.site_id} is {miner.name}, in zone {miner.zone_id}.", json)


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
    with open_database(data) as database:
        page = database.read_now(miners.list_page, MinerFilter(site, zone), PageRequest(limit, after))
    columns = {"id": "id", "site": "site_id", "zone": "zone_id", "name": "name", "created": "created_at"}
    print_page(page, columns, json, when_empty="No miners.")
