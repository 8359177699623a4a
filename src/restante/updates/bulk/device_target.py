"""Devices as the target of jobs: all that match a filter of the fleet, within the users of the caller's grants."""

from typing import Any

from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.lists.long_counts import count_now
from restante.database.queries import queries_beside
from restante.identity import access_audit
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import IdPage, JobTarget
from restante.jobs.rollouts.rollout_items import RolloutItems
from restante.updates.fleet import groups, selection
from restante.updates.fleet.device_filter import DeviceFilter, check_values
from restante.updates.fleet.fleet_counts import FleetCounting
from restante.updates.polling import poll_boost

SQL = queries_beside(__file__)

# How many ids a step of an exact count reads.
# How long a rollout makes the fleet poll faster, and how long before the end of that it does so again.
BOOST_SECONDS = 300
BOOST_RENEW_SECONDS = 60


class DeviceTarget(JobTarget[DeviceFilter]):
    name = "devices"
    area = Area.updates
    filter_type = DeviceFilter

    def check(self, conn: Connection, filters: DeviceFilter, allowed: AllowedIds) -> None:
        check_values(filters)
        if filters.user_id is not None and filters.user_id not in allowed:
            raise BadInput("filter.user_id", "the id of a user")
        try:
            groups.resolve(conn, filters, allowed)
        except BadInput as error:
            raise BadInput(f"filter.{error.field}", error.expected) from None

    def scope(self, filters: DeviceFilter, allowed: AllowedIds) -> AllowedIds:
        return allowed if filters.user_id is None else AllowedIds(frozenset([filters.user_id]))

    def count(self, conn: Connection, filters: DeviceFilter, allowed: AllowedIds) -> int:
        return count_now(conn, FleetCounting(filters, allowed)).total.value

    def sample(self, conn: Connection, filters: DeviceFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        return list(selection.page(conn, filters, None, limit, allowed).items)

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["id"] is None else int(row["id"])

    def ids_after(self, conn: Connection, filters: DeviceFilter, allowed: AllowedIds, after: int, limit: int) -> IdPage:
        page = selection.ids_after(conn, filters, after, limit, allowed)
        return IdPage(page.ids, page.next)

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        access_audit.record_other(conn, actor, event, detail)


class RolloutDevices(RolloutItems):
    """The devices that a rollout has changed."""

    name = "rollout_devices"
    area = Area.updates


def new_rollout_devices() -> RolloutDevices:
    return RolloutDevices(access_audit.record_other)


def keep_polling_fast(conn: Connection) -> None:
    """Make the fleet poll faster for a while, unless it does already: devices then report sooner."""
    current = poll_boost.current(conn)
    if current is None or current.until * 1000 < conn.now_ms + BOOST_RENEW_SECONDS * 1000:
        interval = poll_boost.INTERVAL_SECONDS if current is None else current.interval_seconds
        poll_boost.start(conn, BOOST_SECONDS, min(interval, poll_boost.INTERVAL_SECONDS))


def devices_by_id(conn: Connection, ids: str) -> dict[int, Row]:
    """Owner, public id and revocation of each of these devices. `ids`: a JSON list."""
    return {row["id"]: row for row in conn.all(SQL.devices, ids=ids)}
