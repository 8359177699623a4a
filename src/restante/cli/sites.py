"""`restante site` and `restante zone`: where miners stand."""

from typing import Annotated

import typer

from restante.cli.edge import SiteArgument, SiteOption, actor, opened_edge, show_next
from restante.cli.opening import opened
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_table
from restante.commands import sites
from restante.web.paging import Window

app = typer.Typer(no_args_is_help=True, help="Sites with miners.")
zone_app = typer.Typer(no_args_is_help=True, help="Zones of sites.")


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What the site is called.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a site, with its default zone."""
    with opened_edge(data) as edge:
        site = edge.database.write_now(sites.add, edge.trail, name, actor())
    if json:
        show_json(site)
    else:
        typer.echo(f"Site {site.id} is {site.name}; its default zone is {site.default_zone_id}.")


@app.command("list")
def list_sites(
    limit: LimitOption = 100, after: AfterOption = 0, data: DataOption = None, json: JsonOption = False
) -> None:
    """List sites in the order of their ids."""
    with opened(data) as database:
        page = database.read_now(sites.list_page, Window(limit, after))
    if json:
        show_json(page)
        return
    rows = [(site.id, site.name, site.default_zone_id, site.created_at) for site in page.items]
    show_table(("id", "name", "default zone", "created"), rows, when_empty="No sites.")
    show_next(page.next)


@zone_app.command("add")
def add_zone(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="What the zone is called.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a zone to a site."""
    with opened_edge(data) as edge:
        zone = edge.database.write_now(sites.add_zone, edge.trail, site, name, actor())
    if json:
        show_json(zone)
    else:
        typer.echo(f"Zone {zone.id} of site {site} is {zone.name}.")


@zone_app.command("list")
def list_zones(
    site: SiteOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List zones in the order of their ids."""
    with opened(data) as database:
        page = database.read_now(sites.list_zones, site, Window(limit, after))
    if json:
        show_json(page)
        return
    rows = [
        (zone.id, zone.site_id, zone.name, "yes" if zone.is_default else "", zone.created_at) for zone in page.items
    ]
    show_table(("id", "site", "name", "default", "created"), rows, when_empty="No zones.")
    show_next(page.next)
