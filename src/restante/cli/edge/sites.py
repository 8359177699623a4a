"""`restante site` and `restante zone`."""

from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote import completion
from restante.cli.remote.arguments import SiteArgument, SiteOption, site_id
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.values import whole_number

SITE = Noun("Sites with miners.")
ZONE = Noun("Zones of sites.")
site_app, zone_app = SITE.app, ZONE.app

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
NewNameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="Its new name.")]
ZoneArgument = Annotated[
    int,
    typer.Argument(metavar="ZONE", parser=whole_number, help="The zone's id.", autocompletion=completion.ZONES),
]
SITE_COLUMNS: Columns = {
    "id": "id",
    "name": "name",
    "status": Column(lambda site: "retired" if site.get("retired_at") else "active"),
    "default zone": "default_zone_id",
    "created": when("created_at"),
}


@SITE.lists(SITE_COLUMNS, empty="No sites.")
def list_sites(call: Call) -> Page:
    """List sites by id."""
    return call.page(call.client.sites.list_page)


@SITE.shows({**SITE_COLUMNS, "retired": when("retired_at")})
def show_site(call: Call, site: SiteArgument) -> Item:
    """Show a site."""
    return dict(call.client.sites.get(site_id(call, site)))


@SITE.does("create", "Site {id} with default zone {default_zone_id}.")
def create_site(call: Call, name: NameArgument) -> Any:
    """Add a site, with its default zone."""
    return call.client.sites.create(name=name)


@SITE.does("update", "Site {id} is named {name}.")
def update_site(call: Call, site: SiteArgument, name: NewNameOption) -> Any:
    """Rename a site."""
    return call.client.sites.rename(site_id(call, site), name=name)


@SITE.does("retire", "Site {id} is retired.", asks=True)
def retire_site(call: Call, site: SiteArgument) -> Any:
    """Retire a site: it takes no new commands. What the audit trail says about it stays."""
    found = call.client.sites.get(site_id(call, site))
    miners = call.client.miners.counts(site_id=found["id"], status="active")["total"]["value"]
    call.confirm(f"This retires site {found['id']} ({found['name']}) with {miners} miners. It cannot be undone.")
    return call.client.sites.retire(found["id"])


@ZONE.lists(
    {
        "id": "id",
        "site": "site_id",
        "name": "name",
        "status": Column(lambda zone: "retired" if zone.get("retired_at") else "active"),
        "default": "is_default",
        "created": when("created_at"),
    },
    empty="No zones.",
)
def list_zones(call: Call, site: SiteOption = None) -> Page:
    """List zones by id."""
    return call.page(call.client.zones.list_page, site_id=None if site is None else site_id(call, site))


@ZONE.does("create", "Zone {id} of site {site_id}.")
def create_zone(call: Call, site: SiteArgument, name: NameArgument) -> Any:
    """Add a zone to a site."""
    return call.client.zones.create(site_id=site_id(call, site), name=name)


@ZONE.does("update", "Zone {id} is named {name}.")
def update_zone(call: Call, zone: ZoneArgument, name: NewNameOption) -> Any:
    """Rename a zone."""
    return call.client.zones.rename(zone, name=name)


@ZONE.does("retire", "Zone {id} is retired.", asks=True)
def retire_zone(call: Call, zone: ZoneArgument) -> Any:
    """Retire a zone without miners."""
    call.confirm(f"This retires zone {zone}. It cannot be undone.")
    return call.client.zones.retire(zone)
