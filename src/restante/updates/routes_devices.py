"""A user's devices, for the user and for programs: list, look at, revoke."""

from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity import users
from restante.updates import devices
from restante.updates.devices import Device
from restante.updates.wire import SHAPE
from restante.web.ask import Ask
from restante.web.paging import PAGE_QUERY, Page, Window, page_of_items, window_of
from restante.web.routes import Access, Route

TAG = "devices"


class DeviceRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        one = "/apiv1/users/{user_id}/devices/{device_id}"
        refusals = (400, 401, 403, 404)
        return [
            Route(
                "GET",
                "/apiv1/users/{user_id}/devices",
                self.list_page,
                Access.read,
                "The user's devices, a page at a time.",
                SHAPE,
                TAG,
                query=PAGE_QUERY,
                refusals=refusals,
            ),
            Route("GET", one, self.get, Access.read, "One device.", SHAPE, TAG, refusals=refusals),
            Route(
                "DELETE",
                one,
                self.revoke,
                Access.operate,
                "Revoke the device.",
                SHAPE,
                TAG,
                refusals=refusals,
            ),
            Route(
                "POST",
                one + "/revoke",
                self.revoke,
                Access.operate,
                "Revoke the device.",
                SHAPE,
                TAG,
                refusals=refusals,
            ),
        ]

    async def list_page(self, ask: Ask) -> Page[Device]:
        return await self._database.read(_page, ask.path_id("user_id"), window_of(ask))

    async def get(self, ask: Ask) -> Device:
        return await self._database.read(devices.get, ask.path_id("device_id"), ask.path_id("user_id"))

    async def revoke(self, ask: Ask) -> Device:
        """Ends the device's tokens for good; doing it again changes nothing."""
        return await self._database.write(devices.revoke, ask.path_id("device_id"), ask.path_id("user_id"))


def _page(conn: Connection, user_id: int, window: Window) -> Page[Device]:
    users.require(conn, user_id)
    found = devices.list_page(conn, user_id, window.after, window.limit + 1)
    return page_of_items(found, window, lambda device: device.id)
