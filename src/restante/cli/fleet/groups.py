"""`restante group`: saved filters of devices."""

from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import UserOption, by_id_or_name, given, user_id
from restante.cli.remote.noun import Call, Item, Noun, Page

GROUP = Noun("Groups of devices: saved filters.")
app = GROUP.app

GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group: id or name.", autocompletion=completion.GROUPS)
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
COLUMNS: Columns = {
    "id": "id",
    "name": "name",
    "user": Column(lambda group: group["user_id"] or "all"),
    "filter": "filter",
    "changed": when("updated_at"),
    "by": "updated_by",
}


@GROUP.lists(COLUMNS, empty="No groups.")
def list_groups(call: Call) -> Page:
    """List groups by id."""
    return call.page(call.client.groups.list_page)


@GROUP.shows({**COLUMNS, "created": when("created_at")})
def show(call: Call, group: GroupArgument) -> Item:
    """Show a group. `restante device list --group NAME` lists its devices."""
    return dict(call.client.groups.get(group_id(call, group)))


@GROUP.does("create", "Group {id} ({name}); devices in it now: {devices}.", filters=filters.GROUP_FILTERS)
def create(call: Call, name: NameArgument, user: UserOption = None) -> Any:
    """Save a filter as a group. With --user it is a group of that user's devices, else of the whole fleet."""
    fields: dict[str, Any] = {} if user is None else {"user_id": user_id(call, user)}
    filter: Any = call.filters
    return _with_count(call, call.client.groups.create(name=name, filter=filter, **fields))


@GROUP.does("update", "Group {id} ({name}); devices in it now: {devices}.", filters=filters.GROUP_FILTERS)
def update(
    call: Call,
    group: GroupArgument,
    new_name: Annotated[str | None, typer.Option("--rename", metavar="NAME", help="A new name.")] = None,
) -> Any:
    """Rename a group, or replace its filter with the given one. Devices join and leave at once."""
    fields = given(name=new_name, filter=call.filters or None)
    if not fields:
        raise typer.BadParameter("give --rename or a filter")
    return _with_count(call, call.client.groups.replace(group_id(call, group), **fields))


@GROUP.does("delete", "Group {name} is deleted.", asks=True)
def delete(call: Call, group: GroupArgument) -> Any:
    """Delete a group. The devices stay as they are."""
    found = call.client.groups.get(group_id(call, group))
    call.confirm(f"This deletes group {found['id']} ({found['name']}); its devices stay as they are.")
    call.client.groups.delete(found["id"])
    return {"id": found["id"], "name": found["name"], "deleted": True}


def _with_count(call: Call, group: Any) -> Item:
    return {**group, "devices": call.client.devices.counts(group=str(group["id"]))["total"]["value"]}


def group_id(call: Call, group: str) -> int:
    return by_id_or_name(group, "group", lambda: call.client.groups.list())
