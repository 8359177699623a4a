"""`restante collector`: the devices that poll for the commands of a site."""

from typing import Annotated, Any

import typer

from restante.cli.edge.sites import NameArgument
from restante.cli.output import Columns, joined, when
from restante.cli.remote import filters
from restante.cli.remote.arguments import CollectorArgument, SiteArgument, TagsArgument, ZoneOption, given, tags_of
from restante.cli.remote.arguments import collector_id as id_of
from restante.cli.remote.arguments import site_id as site_of
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import choice

COLLECTOR = Noun("Collectors: programs that poll for the commands of a site.")
app = COLLECTOR.app

COLUMNS: Columns = {
    "id": "id",
    "site": "site_id",
    "zone": "zone_id",
    "name": "device_name",
    "status": "status",
    "last seen": when("last_seen_at"),
    "tags": joined("tags"),
}


@COLLECTOR.lists(
    COLUMNS,
    empty="No collectors.",
    filters=filters.COLLECTORS,
    counts=lambda call: call.client.collectors.counts(**call.filters),
)
def list_collectors(call: Call) -> Page:
    """List collectors by id."""
    return call.page(call.client.collectors.list_page, **call.filters)


COLLECTOR.exports(
    "collectors",
    lambda call, format: call.client.collectors.export(format=format, **call.filters),
    filters=filters.COLLECTORS,
)


@COLLECTOR.shows(
    {
        **COLUMNS,
        "created": when("created_at"),
        "revoked": when("revoked_at"),
        "old secret until": when("old_secret_until"),
    }
)
def show(call: Call, collector: CollectorArgument) -> Item:
    """Show a collector."""
    return dict(call.client.collectors.get(id_of(call, collector)))


@COLLECTOR.does(
    "create", "Collector {id} of site {site_id}. Shown this once:\ntoken        {token}\nhmac_secret  {hmac_secret}"
)
def create(call: Call, site_id: SiteArgument, device_name: NameArgument, zone_id: ZoneOption = None) -> Any:
    """Add a collector to a site, or to one of its zones. Its token and its secret are shown once."""
    where = site_of(call, site_id)
    return call.client.collectors.create(site_id=where, device_name=device_name, **given(zone_id=zone_id))


@COLLECTOR.does("tag", "Tags of the collector: {tags}")
def tag(call: Call, collector: CollectorArgument, tag: TagsArgument) -> Any:
    """Add tags to a collector."""
    number = id_of(call, collector)
    return tags_of([call.client.collectors.tag(number, each) for each in tag])


@COLLECTOR.does("untag", "Tags of the collector: {tags}")
def untag(call: Call, collector: CollectorArgument, tag: TagsArgument) -> Any:
    """Remove tags from a collector."""
    number = id_of(call, collector)
    return tags_of([call.client.collectors.untag(number, each) for each in tag])


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
    found = call.client.collectors.get(id_of(call, collector))
    call.confirm(
        f"This replaces credentials of collector {found['id']} ({found['device_name']}): it is refused until it has "
        "the new ones."
    )
    overlap = None if overlap_sec is None else parse_duration(overlap_sec, "--overlap")
    part: Any = what
    rotated = call.client.collectors.rotate(found["id"], what=part, **given(overlap_sec=overlap))
    for name in ("token", "hmac_secret"):
        if rotated.get(name) is not None:
            call.note(f"{name:<12} {rotated.get(name)}")
    return rotated


@COLLECTOR.does("revoke", "Collector {id} is revoked.", asks=True)
def revoke(call: Call, collector: CollectorArgument) -> Any:
    """Revoke a collector permanently, at once."""
    found = call.client.collectors.get(id_of(call, collector))
    call.confirm(
        f"This revokes collector {found['id']} ({found['device_name']}) of site {found['site_id']}: it gets no more "
        "commands. It cannot be undone."
    )
    return call.client.collectors.revoke(found["id"])
