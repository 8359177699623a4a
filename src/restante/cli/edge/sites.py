"""`restante site` and `restante zone`: the sites and zones that miners belong to."""

from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.edge.context import SiteArgument, SiteOption, open_edge
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import Columns, print_page, print_result
from restante.commands.sites import sites
from restante.database.paging import PageRequest

app = typer.Typer(no_args_is_help=True, help="Sites with miners.")
zone_app = typer.Typer(no_args_is_help=True, help="Zones of sites.")

_ZONE_COLUMNS: Columns = {
    "id": "id",
    "site": "site_id",
    "name": "name",
    "default": lambda zone: "yes" if zone.is_default else "",
    "created": "created_at",
}


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The name of the site.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a site, with its default zone."""
    with open_edge(data) as edge:
        site = edge.database.write_now(sites.add, edge.trail, name, cli_actor())
    print_result(site, f"Site {site.id} is {site.name}; its default zone is {site.default_zone_id}.", json)


@app.command("list")
def list_sites(
    limit: LimitOption = 100, after: AfterOption = 0, data: DataOption = None, json: JsonOption = False
) -> None:
    """List sites in the order of their ids."""
    with open_database(data) as database:
        page = database.read_now(sites.list_page, PageRequest(limit, after))
    columns = {"id": "id", "name": "name", "default zone": "default_zone_id", "created": "created_at"}
    print_page(page, columns, json, when_empty="No sites.")


@zone_app.command("add")
def add_zone(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="The name of the zone.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a zone to a site."""
    with open_edge(data) as edge:
        zone = edge.database.write_now(sites.add_zone, edge.trail, site, name, cli_actor())
    print_result(zone, f"Zone {zone.id} of site {site} is {zone.name}.", json)


@zone_app.command("list")
def list_zones(
    site: SiteOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List zones in the order of their ids."""
    with open_database(data) as database:
        page = database.read_now(sites.list_zones, site, PageRequest(limit, after))
    print_page(page, _ZONE_COLUMNS, json, when_empty="No zones.")
