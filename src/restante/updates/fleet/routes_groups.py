"""Routes for groups, which are saved filters of devices, and for the tags of devices."""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page
from restante.identity import access_audit, tags
from restante.identity.grants import Area
from restante.identity.tags import TagList, check_tag
from restante.updates.devices.ownership import get_owned_device
from restante.updates.fleet import groups
from restante.updates.fleet.device_filter import DeviceFilter, check_values
from restante.updates.fleet.groups import Group
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

TAG = "fleet"
DEVICE_TAG = "/apiv1/users/{user_id}/devices/{device_id}/tags/{tag}"

GroupName = Annotated[str, Meta(pattern=rf"^{groups.NAME_PATTERN}$")]


class GroupBody(msgspec.Struct, forbid_unknown_fields=True):
    """`user_id`: the user among whose devices the group selects; without it, a group of the whole fleet."""

    name: GroupName
    filter: DeviceFilter
    user_id: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None


class GroupChange(msgspec.Struct, forbid_unknown_fields=True):
    """A field that is not given stays as it is."""

    name: GroupName | None = None
    filter: DeviceFilter | None = None


class GroupRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix="/apiv1/groups", errors=(400,), area=Area.updates)
        tagged = RouteGroup("devices", RESPONSE_FORMAT, prefix=DEVICE_TAG, errors=(400, 404), area=Area.updates)
        one = "/{group_id}"
        return [
            group.get("", self.list_page, Access.team_read, "List groups of devices", query=PAGE_QUERY),
            group.post(
                "",
                self.create,
                Access.team_operate,
                "Save a filter as a group",
                status=201,
                errors=(404, 409),
                examples=({"name": "pilot devices behind", "filter": {"tag": "pilot", "config_version": "behind"}},),
            ),
            group.get(one, self.get, Access.team_read, "Show a group", errors=(404,)),
            group.put(
                one,
                self.update,
                Access.team_operate,
                "Change a group",
                errors=(404, 409),
                examples=({"filter": {"tag": "pilot", "overdue": True}},),
            ),
            group.delete(one, self.delete, Access.team_operate, "Delete a group", status=204, errors=(404,)),
            tagged.put("", self.add_tag, Access.operate, "Add a tag to the device", errors=(409,)),
            tagged.delete("", self.remove_tag, Access.operate, "Remove a tag from the device"),
        ]

    async def list_page(self, request: ApiRequest) -> Page[Group]:
        return await self._database.read(groups.list_page, page_request_of(request), request.allowed)

    async def get(self, request: ApiRequest) -> Group:
        return await self._database.read(groups.get, request.path_id("group_id"), request.allowed)

    async def create(self, request: ApiRequest, body: GroupBody) -> Group:
        check_values(body.filter, "filter.")
        return await self._database.write(
            groups.create, body.name, body.user_id, body.filter, request.actor, request.allowed
        )

    async def update(self, request: ApiRequest, body: GroupChange) -> Group:
        if body.filter is not None:
            check_values(body.filter, "filter.")
        group_id = request.path_id("group_id")
        return await self._database.write(
            groups.update, group_id, body.name, body.filter, request.actor, request.allowed
        )

    async def delete(self, request: ApiRequest) -> None:
        """Delete the group; the devices stay as they are."""
        await self._database.write(groups.delete, request.path_id("group_id"), request.actor, request.allowed)

    async def add_tag(self, request: ApiRequest) -> TagList:
        """All tags of the device. Adding a tag that the device has changes nothing."""
        return await self._database.write(change_tag, *_tag_of(request), request.actor, is_added=True)

    async def remove_tag(self, request: ApiRequest) -> TagList:
        """All tags of the device. Removing a tag that the device does not have changes nothing."""
        return await self._database.write(change_tag, *_tag_of(request), request.actor, is_added=False)


def _tag_of(request: ApiRequest) -> tuple[int, int, str]:
    return request.path_id("user_id"), request.path_id("device_id"), check_tag(request.path_text("tag"))


def change_tag(conn: Connection, user_id: int, device_id: int, tag: str, actor: str, *, is_added: bool) -> TagList:
    get_owned_device(conn, user_id, device_id)
    change = tags.add if is_added else tags.remove
    if change(conn, "device", device_id, tag):
        event = "device.tagged" if is_added else "device.untagged"
        access_audit.record_other(conn, actor, event, {"device_id": device_id, "user_id": user_id, "tag": tag})
    return TagList(tags.tags_of(conn, "device", device_id))
