"""Routes that show what a device has got: its state, a line for each signal, its reports, and what it waits for."""

import msgspec

from restante.core.errors import NotFound
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, PageRequest
from restante.delivery.device_presence import DevicePresence
from restante.identity import tags
from restante.identity.grants import Area
from restante.updates.devices import devices, notifications
from restante.updates.devices.devices import Device
from restante.updates.devices.notifications import Report
from restante.updates.devices.ownership import get_owned_device
from restante.updates.fleet import delivery_state, explanation
from restante.updates.fleet.delivery_state import Delivery, DeviceFacts, Remembered, SignalLine
from restante.updates.fleet.explanation import DeviceExplanation
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

TAG = "devices"


class DeviceDetail(Device, frozen=True):
    """A device with its tags and what it has got."""

    tags: list[str]
    delivery: Delivery


class DeliveryRoutes:
    def __init__(self, database: Database, presence: DevicePresence) -> None:
        self._database = database
        self._presence = presence

    def routes(self) -> list[Route]:
        group = RouteGroup(
            TAG,
            RESPONSE_FORMAT,
            prefix="/apiv1/users/{user_id}/devices/{device_id}",
            errors=(400, 401, 403, 404),
            area=Area.updates,
        )
        return [
            group.get("", self.get, Access.read, "Show a device."),
            group.get(
                "/signals", self.signals, Access.read, "List the device's signals and their state", query=PAGE_QUERY
            ),
            group.get("/reports", self.reports, Access.read, "List the device's last reports", query=PAGE_QUERY),
            group.get("/why", self.why, Access.read, "Explain why a device has not got something"),
        ]

    async def get(self, request: ApiRequest) -> DeviceDetail:
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.read(_detail, user_id, device_id, self._remembered(device_id))

    async def signals(self, request: ApiRequest) -> Page[SignalLine]:
        """Newest first; those that are not published yet come before the others on the first page."""
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        window = page_request_of(request)
        return await self._database.read(_signals, user_id, device_id, self._remembered(device_id), window)

    async def reports(self, request: ApiRequest) -> Page[Report]:
        """What the device's agent sent to `POST /apiv1/devices/self/notify`, newest first: the last twenty reports, the
        newest two kibibytes of events of each."""
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.read(_reports, user_id, device_id, page_request_of(request))

    async def why(self, request: ApiRequest) -> DeviceExplanation:
        """What the device waits for, in one sentence and in fields."""
        user_id, device_id = request.path_id("user_id"), request.path_id("device_id")
        return await self._database.read(_why, user_id, device_id, self._remembered(device_id))

    def _remembered(self, device_id: int) -> Remembered:
        return remembered_of(self._presence, device_id)


def remembered_of(presence: DevicePresence, device_id: int) -> Remembered:
    """The state of the device's polls in the memory of this server, beyond the tables."""
    seen, position = presence.last_seen(device_id), presence.confirmed_position(device_id)
    if seen is None:
        return Remembered(position=position)
    return Remembered(int(seen * 1000), presence.overdue_at_ms(device_id, seen), position)


def _facts(conn: Connection, user_id: int, device_id: int, remembered: Remembered) -> DeviceFacts:
    get_owned_device(conn, user_id, device_id)
    facts = delivery_state.facts_of(conn, device_id, remembered)
    if facts is None:
        raise NotFound("there is no such device")
    return facts


def _detail(conn: Connection, user_id: int, device_id: int, remembered: Remembered) -> DeviceDetail:
    device = devices.get(conn, device_id, user_id)
    facts = _facts(conn, user_id, device_id, remembered)
    fields = msgspec.structs.asdict(device)
    fields["last_seen_at"] = iso_precise(facts.seen_ms)
    return DeviceDetail(
        **fields,
        tags=tags.tags_of(conn, "device", device_id),
        delivery=delivery_state.delivery_of(conn, facts),
    )


def _signals(
    conn: Connection, user_id: int, device_id: int, remembered: Remembered, page: PageRequest
) -> Page[SignalLine]:
    facts = _facts(conn, user_id, device_id, remembered)
    return delivery_state.signal_lines(conn, device_id, facts, page)


def _reports(conn: Connection, user_id: int, device_id: int, page: PageRequest) -> Page[Report]:
    get_owned_device(conn, user_id, device_id)
    return notifications.list_page(conn, device_id, page)


def _why(conn: Connection, user_id: int, device_id: int, remembered: Remembered) -> DeviceExplanation:
    return explanation.explain(conn, device_id, _facts(conn, user_id, device_id, remembered))
