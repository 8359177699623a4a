"""`restante miner`: miners at sites."""

from typing import Annotated, Any

import typer

from restante.cli.edge.sites import NameArgument
from restante.cli.output import Columns, joined, when
from restante.cli.remote import filters
from restante.cli.remote.arguments import (
    MinerArgument,
    SiteArgument,
    SiteOption,
    TagsArgument,
    ZoneOption,
    given,
    tags_of,
)
from restante.cli.remote.arguments import miner_id as id_of
from restante.cli.remote.arguments import site_id as site_of
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.values import whole_number

MINER = Noun("Miners at sites.")
app = MINER.app

IdOption = Annotated[
    int | None, typer.Option("--id", metavar="ID", parser=whole_number, help="The id that it already has.")
]
COLUMNS: Columns = {
    "id": "id",
    "site": "site_id",
    "zone": "zone_id",
    "name": "name",
    "status": "status",
    "tags": joined("tags"),
    "created": when("created_at"),
}


@MINER.lists(
    COLUMNS,
    empty="No miners.",
    filters=filters.MINERS,
    counts=lambda call: call.client.miners.counts(**call.filters),
)
def list_miners(call: Call) -> Page:
    """List miners by id."""
    return call.page(call.client.miners.list_page, **call.filters)


MINER.exports(
    "miners", lambda call, format: call.client.miners.export(format=format, **call.filters), filters=filters.MINERS
)


@MINER.shows({**COLUMNS, "retired": when("retired_at"), "replaced by": "replaced_by"})
def show(call: Call, miner: MinerArgument) -> Item:
    """Show a miner."""
    return dict(call.client.miners.get(id_of(call, miner)))


@MINER.does("create", "Miner {id} of site {site_id} is {name}, in zone {zone_id}.")
def create(
    call: Call, site_id: SiteArgument, name: NameArgument, zone_id: ZoneOption = None, id: IdOption = None
) -> Any:
    """Add a miner, to the default zone if no other is given."""
    return call.client.miners.create(site_id=site_of(call, site_id), name=name, **given(zone_id=zone_id, id=id))


@MINER.does("update", "Miner {id} is {name}, in zone {zone_id} of site {site_id}.")
def update(
    call: Call,
    miner: MinerArgument,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its new name.")] = None,
    site_id: SiteOption = None,
    zone_id: ZoneOption = None,
) -> Any:
    """Rename a miner, or move it to another site or zone."""
    where = None if site_id is None else site_of(call, site_id)
    fields = given(name=name, site_id=where, zone_id=zone_id)
    if not fields:
        raise typer.BadParameter("give --name, --site or --zone")
    return call.client.miners.change(id_of(call, miner), **fields)


@MINER.does("retire", "Miner {id} is retired.", asks=True)
def retire(call: Call, miner: MinerArgument) -> Any:
    """Retire a miner: it gets no more commands. What the audit trail says about it stays."""
    found = call.client.miners.get(id_of(call, miner))
    call.confirm(f"This retires miner {found['id']} ({found['name']}): it gets no more commands.")
    return call.client.miners.retire(found["id"])


@MINER.does("replace", "Miner {id} ({name}) took the place of {replaced}.", asks=True)
def replace(call: Call, miner: MinerArgument, name: NameArgument, id: IdOption = None) -> Any:
    """Retire a miner, and put a new one in its place: same site, zone and tags."""
    found = call.client.miners.get(id_of(call, miner))
    call.confirm(f"This retires miner {found['id']} ({found['name']}), and adds {name} in its place.")
    made = call.client.miners.substitute(found["id"], name=name, **given(id=id))
    return {**made, "replaced": found["id"]}


@MINER.does("tag", "Tags of the miner: {tags}")
def tag(call: Call, miner: MinerArgument, tag: TagsArgument) -> Any:
    """Add tags to a miner."""
    number = id_of(call, miner)
    return tags_of([call.client.miners.tag(number, each) for each in tag])


@MINER.does("untag", "Tags of the miner: {tags}")
def untag(call: Call, miner: MinerArgument, tag: TagsArgument) -> Any:
    """Remove tags from a miner."""
    number = id_of(call, miner)
    return tags_of([call.client.miners.untag(number, each) for each in tag])
