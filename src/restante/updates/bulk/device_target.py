"""Devices as the target of jobs: all that match a filter of the fleet, within the users of the caller's grants."""

from typing import Any

from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import access_audit
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import IdPage, JobTarget
from restante.updates.fleet import groups, selection
from restante.updates.fleet.device_filter import DeviceFilter, check_values

SQL = queries_beside(__file__)

# How many ids a step of an exact count reads.
COUNT_STEP = 5000


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
        """The exact number, however many there are: a large count is read in steps."""
        counted = selection.count(conn, filters, allowed)
        if counted.is_exact:
            return counted.value
        total, after = 0, 0
        while True:
            page = selection.ids_after(conn, filters, after, COUNT_STEP, allowed)
            total += len(page.ids)
            if page.next is None:
                return total
            after = page.next

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


def devices_by_id(conn: Connection, ids: str) -> dict[int, Row]:
    """Owner, public id and revocation of each of these devices. `ids`: a JSON list."""
    return {row["id"]: row for row in conn.all(SQL.devices, ids=ids)}
