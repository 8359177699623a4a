"""Commands as the target of jobs: all that match a filter, within the sites of the caller's grants."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.errors import NO_NUL
from restante.commands.lifecycle import listing
from restante.commands.lifecycle.command_types import standard_type
from restante.commands.sites import sites
from restante.commands.sites.site_scope import check_body
from restante.core.commands.command_states import State
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import IdPage, JobTarget, id_page

SQL = queries_beside(__file__)


Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=NO_NUL)]


class CommandBulkFilter(BodyWithIds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands by site, zone, miner, type, state, creator, rule, job and time. None in a field: any value.

    Without `status`, an action finds the commands that it applies to: `cancel` the active ones, `retry` those that
    failed, expired or were cancelled.
    """

    id_fields = ("site_id", "zone_id", "miner_id", "rule_id")

    site_id: Id | None = None
    zone_id: Id | None = None
    miner_id: Id | None = None
    rule_id: Id | None = None
    command_type: str | None = None
    status: list[State] | None = None
    created_by: Text | None = None
    job_id: Text | None = None
    created_after: str | None = None
    created_before: str | None = None


class CommandTarget(JobTarget[CommandBulkFilter]):
    name = "commands"
    area = Area.commands
    filter_type = CommandBulkFilter

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    def check(self, conn: Connection, filters: CommandBulkFilter, allowed: AllowedIds) -> None:
        _bound(filters, allowed)
        if filters.site_id is not None:
            check_body(allowed, filters.site_id, "filter.site_id")
            sites.require_site(conn, filters.site_id, "filter.site_id")

    def scope(self, filters: CommandBulkFilter, allowed: AllowedIds) -> AllowedIds:
        return allowed if filters.site_id is None else AllowedIds(frozenset([filters.site_id]))

    def count(self, conn: Connection, filters: CommandBulkFilter, allowed: AllowedIds) -> int:
        row = conn.one(SQL.count, **_bound(filters, allowed))
        return 0 if row is None else int(row["commands"])

    def sample(self, conn: Connection, filters: CommandBulkFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        ids = self.ids_after(conn, filters, allowed, 0, limit).ids
        return [listing.view(row) for row in self.by_ids(conn, ids)]

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["id"] is None else int(row["id"])

    def ids_after(
        self, conn: Connection, filters: CommandBulkFilter, allowed: AllowedIds, after: int, limit: int
    ) -> IdPage:
        rows = conn.all(SQL.commands_after, **_bound(filters, allowed), after=after, limit=limit)
        return id_page([row["id"] for row in rows], limit)

    def by_ids(self, conn: Connection, ids: list[int]) -> list[Row]:
        return conn.all(SQL.by_ids, ids=msgspec.json.encode(ids).decode())

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        self._trail.record(conn, AuditEntry(ROOT_CHAIN, actor, event, None, None, None, detail))


def _bound(filters: CommandBulkFilter, allowed: AllowedIds) -> dict[str, Any]:
    command_type = filters.command_type
    statuses = filters.status
    return {
        "site_id": filters.site_id,
        "zone_id": filters.zone_id,
        "miner_id": filters.miner_id,
        "rule_id": filters.rule_id,
        "command_type": None if command_type is None else standard_type(command_type, "filter.command_type"),
        # Between commas, so that both engines can search the text for a state.
        "statuses": None if statuses is None else f",{','.join(statuses)},",
        "created_by": filters.created_by,
        "job_id": filters.job_id,
        "created_after": _ms(filters.created_after, "filter.created_after"),
        "created_before": _ms(filters.created_before, "filter.created_before"),
        "sites": allowed.as_json(),
    }


def _ms(text: str | None, field: str) -> int | None:
    return None if text is None else parse_iso(text, field)
