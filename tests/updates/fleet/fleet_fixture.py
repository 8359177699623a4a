"""A fleet with described devices, and shorthand for its filters."""

from typing import Any
from uuid import uuid4

from restante.database.connection import Connection
from restante.delivery.device_presence import write_presence
from restante.identity import tags
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.devices import devices
from restante.updates.devices.devices import Device, DeviceDetails
from restante.updates.fleet import selection
from restante.updates.fleet.device_filter import parse_object
from restante.updates.fleet.selection import FleetPage
from tests.updates.updates_fixture import DeviceFleet


class DescribedFleet(DeviceFleet):
    def add(self, name: str = "", *device_tags: str, user_id: int | None = None, **details: Any) -> int:
        described = DeviceDetails(str(uuid4()), bytes(32), bytes(32), name=name, **details)
        return self.database.write_now(_add, user_id or self.user_id, described, device_tags).id

    def was_seen(self, device_id: int, at_ms: int, overdue_at_ms: int | None = None, n: int = 0) -> None:
        overdue = at_ms + 600_000 if overdue_at_ms is None else overdue_at_ms
        self.database.write_now(write_presence, [(device_id, at_ms, overdue, 1 if n else 0, n)])

    def page(self, after: str | None = None, limit: int = 100, users: AllowedIds = ALL_IDS, **fields: Any) -> FleetPage:
        return self.database.read_now(selection.page, parse_object(fields), after, limit, users)

    def ids(self, users: AllowedIds = ALL_IDS, **fields: Any) -> list[int]:
        """The ids that all pages of the filter have, in their order."""
        found: list[int] = []
        after = None
        while True:
            page = self.page(after, 2, users, **fields)
            found.extend(row.id for row in page.items)
            after = page.next
            if after is None:
                return found


def _add(conn: Connection, user_id: int, details: DeviceDetails, device_tags: tuple[str, ...]) -> Device:
    device = devices.register(conn, user_id, details)
    for tag in device_tags:
        tags.add(conn, "device", device.id, tag)
    return device
