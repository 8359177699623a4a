"""Routes for devices: those of one user, for the user and for programs, and one of any user.

`updates.fleet` lists the devices of all users, and shows what each one got.
"""

import msgspec

from restante.core.errors import NotFound
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, PageRequest, page_of_items
from restante.delivery.presence import Presence
from restante.identity.grants import Area
from restante.identity.people import users
from restante.updates.devices import devices
from restante.updates.devices.devices import Device
from restante.updates.response_format import LIST_QUERY, RESPONSE_FORMAT, list_info, list_response
from restante.web.paging import page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup, RouteOptions

TAG = "devices"


class DeviceRoutes:
    def __init__(self, database: Database, presence: Presence) -> None:
        self._database = database
        self._presence = presence

    def routes(self) -> list[Route]:
        group = RouteGroup(
            TAG,
            RESPONSE_FORMAT,
            prefix="/apiv1/users/{user_id}/devices",
            errors=(400, 401, 403, 404),
            area=Area.updates,
        )
        one = "/{device_id}"
        own = RouteGroup(TAG, RESPONSE_FORMAT, prefix="/apiv1/me", errors=(400, 401, 403), area=Area.updates)
        fleet = RouteGroup(TAG, RESPONSE_FORMAT, prefix="/apiv1/devices", errors=(400, 401, 403), area=Area.updates)
        listed: RouteOptions = {"query": LIST_QUERY, "responses": (list_info(Device),)}
        return [
            own.get("/devices", self.list_own, Access.own_read, "List the caller's devices.", **listed),
            fleet.get(one, self.get_of_fleet, Access.team_read, "Show a device of any user.", errors=(404,)),
            group.get("", self.list_page, Access.read, "List the user's devices.", **listed),
            group.delete(one, self.revoke, Access.operate, "Revoke the device."),
            group.post(one + "/revoke", self.revoke, Access.operate, "Revoke the device."),
        ]

    async def list_page(self, request: ApiRequest) -> ApiResponse:
        user_id = request.path_id("user_id")
        return await self._list(request, user_id)

    async def list_own(self, request: ApiRequest) -> ApiResponse:
        """The same as the list of the caller's user id."""
        return await self._list(request, request.owner_id)

    async def _list(self, request: ApiRequest, user_id: int) -> ApiResponse:
        page = await self._database.read(_page, user_id, page_request_of(request))
        return list_response(request, Page([self._with_memory(device) for device in page.items], page.next))

    def _with_memory(self, device: Device) -> Device:
        """The device with the last poll that this server has in memory, if it is newer than the stored one."""
        seen = self._presence.last_seen(device.id)
        seen_at = None if seen is None else iso_precise(int(seen * 1000))
        if seen_at is None or seen_at <= (device.last_seen_at or ""):
            return device
        return msgspec.structs.replace(device, last_seen_at=seen_at)

    async def get_of_fleet(self, request: ApiRequest) -> Device:
        device = await self._database.read(devices.get, request.path_id("device_id"))
        if device.user_id not in request.allowed:
            raise NotFound("there is no such device")
        return self._with_memory(device)

    async def revoke(self, request: ApiRequest) -> Device:
        """End the device's tokens permanently; revoking it again changes nothing."""
        return await self._database.write(devices.revoke, request.path_id("device_id"), request.path_id("user_id"))


def _page(conn: Connection, user_id: int, window: PageRequest) -> Page[Device]:
    users.check_exists(conn, user_id)
    found = devices.list_page(conn, user_id, window.after, window.limit + 1)
    return page_of_items(found, window, lambda device: device.id)
