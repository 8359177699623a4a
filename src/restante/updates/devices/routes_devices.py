"""Routes for devices: those of one user, for the user and for programs, and those of every user."""

from restante.core.decoding import INT64_MAX
from restante.core.errors import NotFound
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, PageRequest, page_of_items
from restante.identity.grants import AllowedIds, Area
from restante.identity.people import users
from restante.updates.devices import devices
from restante.updates.devices.devices import Device
from restante.updates.response_format import LIST_QUERY, RESPONSE_FORMAT, list_info, list_response
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup, RouteOptions

TAG = "devices"
_USER = Query("user_id", "only devices of this user", {"type": "integer", "minimum": 1, "maximum": INT64_MAX})


class DeviceRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

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
            fleet.get(
                "",
                self.list_fleet,
                Access.fleet_read,
                "List the devices of every user.",
                query=(*PAGE_QUERY, _USER),
            ),
            fleet.get(one, self.get_of_fleet, Access.fleet_read, "Show a device of any user."),
            group.get("", self.list_page, Access.read, "List the user's devices.", **listed),
            group.get(one, self.get, Access.read, "Show a device."),
            group.delete(one, self.revoke, Access.operate, "Revoke the device."),
            group.post(one + "/revoke", self.revoke, Access.operate, "Revoke the device."),
        ]

    async def list_page(self, request: ApiRequest) -> ApiResponse:
        user_id = request.path_id("user_id")
        return list_response(request, await self._database.read(_page, user_id, page_request_of(request)))

    async def list_own(self, request: ApiRequest) -> ApiResponse:
        """The same as the list of the caller's user id."""
        return list_response(request, await self._database.read(_page, request.owner_id, page_request_of(request)))

    async def list_fleet(self, request: ApiRequest) -> Page[Device]:
        user_id = request.query_int("user_id", 0, 1, INT64_MAX) or None
        return await self._database.read(_fleet_page, user_id, request.allowed, page_request_of(request))

    async def get_of_fleet(self, request: ApiRequest) -> Device:
        device = await self._database.read(devices.get, request.path_id("device_id"))
        if device.user_id not in request.allowed:
            raise NotFound("there is no such device")
        return device

    async def get(self, request: ApiRequest) -> Device:
        return await self._database.read(devices.get, request.path_id("device_id"), request.path_id("user_id"))

    async def revoke(self, request: ApiRequest) -> Device:
        """End the device's tokens permanently; revoking it again changes nothing."""
        return await self._database.write(devices.revoke, request.path_id("device_id"), request.path_id("user_id"))


def _fleet_page(conn: Connection, user_id: int | None, allowed: AllowedIds, window: PageRequest) -> Page[Device]:
    """The devices of the user, or of every user whom the caller's grants include."""
    if user_id is not None:
        users_listed: list[int | None] = [user_id] if user_id in allowed else []
    else:
        users_listed = [None] if allowed.ids is None else [each for each in allowed.ids if isinstance(each, int)]
    pages = (devices.list_page(conn, each, window.after, window.limit + 1) for each in users_listed)
    found = sorted((device for page in pages for device in page), key=lambda device: device.id)
    return page_of_items(found[: window.limit + 1], window, lambda device: device.id)


def _page(conn: Connection, user_id: int, window: PageRequest) -> Page[Device]:
    users.check_exists(conn, user_id)
    found = devices.list_page(conn, user_id, window.after, window.limit + 1)
    return page_of_items(found, window, lambda device: device.id)
