"""The routes of the fleet over HTTP, with a poll object: devices poll, operators look."""

from typing import Any

import httpx

from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.log_reader import LogReader
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import api_keys
from restante.identity.grants import checked_grants, parse_grant
from restante.identity.signing_keys import SigningKeys
from restante.updates.devices.routes_devices import DeviceRoutes
from restante.updates.devices.routes_self import SelfRoutes
from restante.updates.fleet.routes_delivery import DeliveryRoutes
from restante.updates.fleet.routes_fleet_list import FleetListRoutes
from restante.updates.fleet.routes_groups import GroupRoutes
from restante.updates.install.routes import InstallRoutes
from restante.updates.polling.poll import UpdatesPoll
from restante.updates.polling.routes import PollRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.conftest import ManualClock
from tests.defaults import append_signals, new_application, new_device_tokens
from tests.updates.fleet.fleet_fixture import DescribedFleet
from tests.updates.poll_harness import QUICK


def deliver_outbox(database: Database) -> None:
    """Publish the signals that wait, as the dispatcher does."""
    database.write_now(outbox.claim, "tests", 60.0, 100)
    database.write_now(
        outbox.deliver_leased,
        "tests",
        lambda conn, signals: [append_signals(conn, device, own, 1000) for device, own in signals.items()],
    )


class FleetApi:
    def __init__(self, fleet: DescribedFleet, clock: ManualClock) -> None:
        database = self.database = fleet.database
        self.fleet, self._clock = fleet, clock
        self.presence = DevicePresence(database, self._overdue_at)
        self.poll = UpdatesPoll(LogReader(database), self.presence, QUICK)
        self.tokens = new_device_tokens(database, SigningKeys(database, fleet.master_key))
        routes = [
            *PollRoutes(self.poll).routes(),
            *SelfRoutes(database).routes(),
            *InstallRoutes(database, fleet.emit).routes(),
            *DeviceRoutes(database, self.presence).routes(),
            *DeliveryRoutes(database, self.presence).routes(),
            *FleetListRoutes(database, self.presence).routes(),
            *GroupRoutes(database).routes(),
        ]
        application = new_application(routes, AccessControl(database, self.tokens), RESPONSE_FORMAT)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://restante.test")
        self.operator = self.key("operator")

    def _overdue_at(self, device_id: int, seen: float, cursor: bytes) -> float:
        return self.poll.overdue_at(device_id, seen, cursor)

    def key(self, *grants: str, user_id: int | None = None) -> dict[str, str]:
        given = checked_grants(parse_grant(grant) for grant in grants)
        return {"authorization": f"Bearer {self.database.write_now(api_keys.create, 'tests', given, user_id)[1]}"}

    async def call(self, method: str, path: str, body: Any = None, headers: Any = None) -> httpx.Response:
        return await self.client.request(method, path, headers=headers or self.operator, json=body)

    async def get(self, path: str, headers: Any = None) -> Any:
        response = await self.call("GET", path, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def device_path(self, device_id: int) -> str:
        return f"/apiv1/users/{self.fleet.user_id}/devices/{device_id}"

    async def as_device(
        self, device_id: int, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        sent = {"authorization": f"Bearer {self.tokens.mint(self.fleet.user_id, device_id)}", **headers}
        return await self.client.request(method, "/apiv1/devices/self" + path, headers=sent, json=body)

    async def poll_as(self, device_id: int, cursor: str | None = None) -> str:
        """Poll at the time of the clock; the cursor to send next."""
        self.poll.tick(self._clock.now_ms / 1000)
        query = "" if cursor is None else f"?cursor={cursor}"
        return (await self.as_device(device_id, "GET", "/updates" + query)).headers["etag"]

    def publish(self, device_id: int, *types: str) -> str:
        """Publish signals; the cursor after them."""
        signals = [Signal(type, self._clock.now_ms, {}) for type in types]
        published = self.database.write_now(append_signals, device_id, signals, 1000)
        self.poll.published_elsewhere(device_id, published.head.newest)
        return str(published.head.newest)
