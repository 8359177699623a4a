"""Miners as the target of jobs: all that match a filter, within the sites of the caller's grants."""

from typing import Any

import msgspec

from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.sites import sites
from restante.commands.sites.miners import Miner, view
from restante.commands.sites.site_scope import check_body
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds, Area
from restante.jobs.actions import IdPage, JobTarget, id_page
from restante.jobs.rollouts.rollout_items import RolloutItems

SQL = queries_beside(__file__)


class MinerFilter(BodyWithIds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Miners of a site, of a zone, or with these ids."""

    id_fields = ("site_id", "zone_id", "miner_ids")

    site_id: Id | None = None
    zone_id: Id | None = None
    miner_ids: list[Id] | None = None


class MinerTarget(JobTarget[MinerFilter]):
    name = "miners"
    area = Area.commands
    filter_type = MinerFilter

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    def check(self, conn: Connection, filters: MinerFilter, allowed: AllowedIds) -> None:
        if filters.site_id is not None:
            check_body(allowed, filters.site_id, "filter.site_id")
            sites.require_site(conn, filters.site_id, "filter.site_id")
            if filters.zone_id is not None:
                sites.require_zone(conn, filters.site_id, filters.zone_id, "filter.zone_id")

    def scope(self, filters: MinerFilter, allowed: AllowedIds) -> AllowedIds:
        return allowed if filters.site_id is None else AllowedIds(frozenset([filters.site_id]))

    def count(self, conn: Connection, filters: MinerFilter, allowed: AllowedIds) -> int:
        row = conn.one(SQL.count, **_bound(filters, allowed))
        return 0 if row is None else int(row["miners"])

    def sample(self, conn: Connection, filters: MinerFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        return [view(row) for row in self.rows_after(conn, filters, allowed, 0, limit)]

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["id"] is None else int(row["id"])

    def ids_after(self, conn: Connection, filters: MinerFilter, allowed: AllowedIds, after: int, limit: int) -> IdPage:
        return id_page([row["id"] for row in self.rows_after(conn, filters, allowed, after, limit)], limit)

    def rows_after(
        self, conn: Connection, filters: MinerFilter, allowed: AllowedIds, after: int, limit: int
    ) -> list[Row]:
        return conn.all(SQL.miners_after, **_bound(filters, allowed), after=after, limit=limit)

    def by_ids(self, conn: Connection, ids: list[int]) -> list[Miner]:
        return [view(row) for row in conn.all(SQL.by_ids, ids=msgspec.json.encode(ids).decode())]

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        self._trail.record(conn, AuditEntry(ROOT_CHAIN, actor, event, None, None, None, detail))


class RolloutMiners(RolloutItems):
    """The miners to which a rollout has sent a command."""

    name = "rollout_miners"
    area = Area.commands


def _bound(filters: MinerFilter, allowed: AllowedIds) -> dict[str, Any]:
    miner_ids = filters.miner_ids
    return {
        "site_id": filters.site_id,
        "zone_id": filters.zone_id,
        "miner_ids": None if miner_ids is None else msgspec.json.encode(miner_ids).decode(),
        "sites": allowed.as_json(),
    }
