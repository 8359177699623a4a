"""`restante collector`: the devices that fetch a site's commands. Tokens and secrets are shown once."""

from enum import StrEnum
from typing import Annotated

import typer

from restante.cli.edge import SiteArgument, SiteOption, ZoneOption, actor, opened_edge, show_next
from restante.cli.opening import opened
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_record, show_table
from restante.commands import collectors, routes_admin_collectors
from restante.commands.routes_admin_collectors import OVERLAP_MAX_SECONDS, CollectorBody, NewCollectorView, RotationBody
from restante.web.paging import Window, page_of_items

app = typer.Typer(no_args_is_help=True, help="Devices that fetch a site's commands.")

CollectorArgument = Annotated[int, typer.Argument(metavar="ID", min=1, max=ID_MAX, help="The collector's id.")]


class What(StrEnum):
    both = "both"
    token = "token"  # noqa: S105 — a word, not a secret
    hmac_secret = "hmac_secret"  # noqa: S105 — a word, not a secret


@app.command("add")
def add(
    site: SiteArgument,
    name: Annotated[str, typer.Argument(help="What the collector is called.")],
    zone: ZoneOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a collector. Its token and its secret are shown this once."""
    body = CollectorBody(site, name, zone)
    with opened_edge(data) as edge:
        made = edge.database.write_now(routes_admin_collectors.add, edge.trail, edge.box, body, actor())
    if json:
        show_json(NewCollectorView(*made, site, zone, name))
    else:
        typer.echo(f"Collector {made.id} of site {site}. Shown this once:")
        show_record([("token", made.token), ("hmac_secret", made.hmac_secret)])


@app.command("list")
def list_collectors(
    site: SiteOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List collectors in the order of their ids."""
    with opened(data) as database:
        found = database.read_now(collectors.list_some, site, after, limit + 1)
    views = [routes_admin_collectors.view(each) for each in found]
    page = page_of_items(views, Window(limit, after), lambda each: each.id)
    if json:
        show_json(page)
        return
    rows = [
        (each.id, each.site_id, each.zone_id, each.device_name, each.status, each.last_seen_at) for each in page.items
    ]
    show_table(("id", "site", "zone", "name", "status", "last seen"), rows, when_empty="No collectors.")
    show_next(page.next)


@app.command("rotate")
def rotate(
    collector: CollectorArgument,
    what: Annotated[What, typer.Option("--what", help="What is replaced.")] = What.both,
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            metavar="SECONDS",
            min=0,
            max=OVERLAP_MAX_SECONDS,
            help="How long the old secret verifies ACKs.",
        ),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace a collector's token and secret; the new ones are shown this once. The old token ends at once."""
    with opened_edge(data) as edge:
        seconds = edge.options.secret_overlap_seconds if overlap is None else overlap
        wanted = RotationBody(what.value, seconds)
        rotated = edge.database.write_now(
            routes_admin_collectors.rotate, edge.trail, edge.box, collector, wanted, actor()
        )
    if json:
        show_json(rotated)
    else:
        shown = [("token", rotated.token), ("hmac_secret", rotated.hmac_secret)]
        typer.echo(f"Collector {collector}. Shown this once:")
        show_record([(name, value) for name, value in shown if value is not None])


@app.command("revoke")
def revoke(collector: CollectorArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """End a collector's access for good, at once."""
    with opened_edge(data) as edge:
        revoked = edge.database.write_now(routes_admin_collectors.revoke, edge.trail, collector, actor())
    if json:
        show_json(revoked)
    else:
        typer.echo(f"Collector {collector} is revoked.")
