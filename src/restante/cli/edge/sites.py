"""`restante site`, `restante zone`, `restante miner` and `restante collector`."""

from typing import Annotated, Any

import typer

from restante.cli.output import when
from restante.cli.remote.arguments import (
    COLLECTORS,
    SiteArgument,
    SiteOption,
    ZoneOption,
    choice,
    site_id,
    whole_number,
)
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration

SITE = Noun("Sites with miners.")
ZONE = Noun("Zones of sites.")
MINER = Noun("Miners at sites.")
COLLECTOR = Noun("Devices that poll for a site's commands.")
site_app, zone_app, miner_app, collector_app = SITE.app, ZONE.app, MINER.app, COLLECTOR.app

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
CollectorArgument = Annotated[
    int,
    typer.Argument(metavar="COLLECTOR", parser=whole_number, help="The collector's id.", autocompletion=COLLECTORS),
]


@SITE.lists(
    {"id": "id", "name": "name", "default zone": "default_zone_id", "created": when("created_at")}, empty="No sites."
)
def list_sites(call: Call) -> Page:
    """List sites by id."""
    return call.page(call.client.sites.list_page)


@SITE.shows()
def show_site(call: Call, site: SiteArgument) -> Item:
    """Show a site."""
    return dict(call.client.sites.get(site_id(call, site) or 0))


@SITE.does("create", "Site {id} with default zone {default_zone_id}.")
def create_site(call: Call, name: NameArgument) -> Any:
    """Add a site, with its default zone."""
    return call.client.sites.create(name=name)


@ZONE.lists(
    {"id": "id", "site": "site_id", "name": "name", "default": "is_default", "created": when("created_at")},
    empty="No zones.",
)
def list_zones(call: Call, site: SiteOption = None) -> Page:
    """List zones by id."""
    return call.page(call.client.zones.list_page, site_id=site_id(call, site))


@ZONE.does("create", "Zone {id} of site {site_id}.")
def create_zone(call: Call, site: SiteArgument, name: NameArgument) -> Any:
    """Add a zone to a site."""
    return call.client.zones.create(site_id=site_id(call, site) or 0, name=name)


@MINER.lists(
    {"id": "id", "site": "site_id", "zone": "zone_id", "name": "name", "created": when("created_at")},
    empty="No miners.",
)
def list_miners(call: Call, site: SiteOption = None, zone_id: ZoneOption = None) -> Page:
    """List miners by id."""
    return call.page(call.client.miners.list_page, site_id=site_id(call, site), zone_id=zone_id)


@MINER.does("create", "Miner {id} of site {site_id} is {name}, in zone {zone_id}.")
def create_miner(
    call: Call,
    site: SiteArgument,
    name: NameArgument,
    zone_id: ZoneOption = None,
    id: Annotated[
        int | None, typer.Option("--id", metavar="ID", parser=whole_number, help="The id that it already has.")
    ] = None,
) -> Any:
    """Add a miner, to the default zone if no other is given."""
    given: dict[str, Any] = {"zone_id": zone_id, "id": id}
    given = {name: value for name, value in given.items() if value is not None}
    return call.client.miners.create(site_id=site_id(call, site) or 0, name=name, **given)


@COLLECTOR.lists(
    {
        "id": "id",
        "site": "site_id",
        "zone": "zone_id",
        "name": "device_name",
        "status": "status",
        "last seen": when("last_seen_at"),
    },
    empty="No collectors.",
)
def list_collectors(call: Call, site: SiteOption = None) -> Page:
    """List collectors by id."""
    return call.page(call.client.collectors.list_page, site_id=site_id(call, site))


@COLLECTOR.shows()
def show_collector(call: Call, collector: CollectorArgument) -> Item:
    """Show a collector."""
    return dict(call.client.collectors.get(collector))


@COLLECTOR.does(
    "create", "Collector {id} of site {site_id}. Shown this once:\ntoken        {token}\nhmac_secret  {hmac_secret}"
)
def create_collector(call: Call, site: SiteArgument, device_name: NameArgument, zone_id: ZoneOption = None) -> Any:
    """Add a collector to a site, or to one of its zones. Its token and its secret are shown once."""
    given: dict[str, Any] = {} if zone_id is None else {"zone_id": zone_id}
    return call.client.collectors.create(site_id=site_id(call, site) or 0, device_name=device_name, **given)


@COLLECTOR.does("rotate", "Collector {id} has new credentials. Shown this once:", asks=True)
def rotate(
    call: Call,
    collector: CollectorArgument,
    what: Annotated[str, choice("--what", ("both", "token", "hmac_secret"), "The part to replace.")] = "both",
    overlap_sec: Annotated[
        str | None, typer.Option("--overlap", metavar="TIME", help="How long ACKs may still use the old secret: 1h.")
    ] = None,
) -> Any:
    """Replace a collector's token and secret. The new ones are shown once; the old token is refused at once."""
    call.confirm(f"This replaces credentials of collector {collector}: it is refused until it has the new ones.")
    given: dict[str, Any] = {} if overlap_sec is None else {"overlap_sec": parse_duration(overlap_sec, "--overlap")}
    rotated = call.client.collectors.rotate(collector, what=what, **given)  # type: ignore[arg-type]
    for name in ("token", "hmac_secret"):
        if rotated.get(name) is not None:
            call.note(f"{name:<12} {rotated.get(name)}")
    return rotated


@COLLECTOR.does("revoke", "Collector {id} is revoked.", asks=True)
def revoke(call: Call, collector: CollectorArgument) -> Any:
    """Revoke a collector permanently, at once."""
    found = call.client.collectors.get(collector)
    call.confirm(
        f"This revokes collector {collector} ({found['device_name']}) of site {found['site_id']}: it gets no more "
        "commands. It cannot be undone."
    )
    return call.client.collectors.revoke(collector)
