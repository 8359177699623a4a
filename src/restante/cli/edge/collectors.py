"""`restante collector`: the devices that poll for a site's commands. Tokens and secrets are shown once."""

from enum import StrEnum
from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.edge.context import SiteArgument, SiteOption, ZoneOption, open_edge
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import print_fields, print_json, print_page, print_result
from restante.commands.sites import collectors, routes_collectors
from restante.commands.sites.collectors import CollectorFilter
from restante.commands.sites.routes_collectors import OVERLAP_MAX_SECONDS, CollectorBody, RotationBody
from restante.database.paging import Page, PageRequest

app = typer.Typer(no_args_is_help=True, help="Devices that poll for a site's commands.")

CollectorArgument = Annotated[int, typer.Argument(metavar="ID", min=1, max=ID_MAX, help="The collector's id.")]

_COLUMNS = {
    "id": "id",
    "site": "site_id",
    "zone": "zone_id",
    "name": "device_name",
    "status": "status",
    "last seen": "last_seen_at",
}


class RotatedPart(StrEnum):
    both = "both"
    token = "token"  # noqa: S105 — a word, not a secret
    hmac_secret = "hmac_secret"  # noqa: S105 — a word, not a secret


@app.command("add")
def add(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="The name of the collector.")],
    zone: ZoneOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a collector. Its token and its secret are shown once."""
    body = CollectorBody(site, name, zone)
    with open_edge(data) as edge:
        new = edge.database.write_now(routes_collectors.add, edge.trail, edge.box, body, cli_actor())
    if json:
        print_json(routes_collectors.new_view(new, body))
    else:
        typer.echo(f"Collector {new.id} of site {site}. Shown this once:")
        print_fields([("token", new.token), ("hmac_secret", new.hmac_secret)])


@app.command("list")
def list_collectors(
    site: SiteOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List collectors in the order of their ids."""
    with open_database(data) as database:
        found = database.read_now(collectors.list_page, CollectorFilter(site), PageRequest(limit, after))
    page = Page([routes_collectors.view(each) for each in found.items], found.next)
    print_page(page, _COLUMNS, json, when_empty="No collectors.")


@app.command("rotate")
def rotate(
    collector: CollectorArgument,
    what: Annotated[RotatedPart, typer.Option("--what", help="The part to replace.")] = RotatedPart.both,
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            metavar="SECONDS",
            min=0,
            max=OVERLAP_MAX_SECONDS,
            help="How long ACKs may still use the old secret.",
        ),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace a collector's token and secret. The new ones are shown once; the old token is refused at once."""
    with open_edge(data) as edge:
        seconds = edge.options.secret_overlap_seconds if overlap is None else overlap
        rotation = RotationBody(what.value, seconds)
        rotated = edge.database.write_now(
            routes_collectors.rotate, edge.trail, edge.box, collector, rotation, cli_actor()
        )
    if json:
        print_json(rotated)
    else:
        secrets = [("token", rotated.token), ("hmac_secret", rotated.hmac_secret)]
        typer.echo(f"Collector {collector}. Shown this once:")
        print_fields([(name, value) for name, value in secrets if value is not None])


@app.command("revoke")
def revoke(collector: CollectorArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Revoke a collector permanently, at once."""
    with open_edge(data) as edge:
        revoked = edge.database.write_now(routes_collectors.revoke, edge.trail, collector, cli_actor())
    print_result(revoked, f"Collector {collector} is revoked.", json)
