"""Miners as the target of jobs: all active ones that match a filter, within the sites of the caller's grants."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.sites import sites
from restante.commands.sites.miners import Miner, view, with_tags
from restante.commands.sites.site_scope import check_body
from restante.core.errors import BadInput
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds, Area
from restante.identity.tags import TAGS_MAX, check_tag
from restante.jobs.actions import IdPage, JobTarget, id_page
from restante.jobs.rollouts.rollout_items import RolloutItems

SQL = queries_beside(__file__)


MINER_IDS_MAX = 10_000
TEXT_CHARACTERS_MAX = 255


class MinerBulkFilter(BodyWithIds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Miners of a site, of a zone, with these ids, or with a tag (or several, separated by commas: all of them)."""

    id_fields = ("site_id", "zone_id", "miner_ids")

    site_id: Id | None = None
    zone_id: Id | None = None
    miner_ids: Annotated[list[Id], Meta(max_length=MINER_IDS_MAX)] | None = None
    tag: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX, examples=["pilot"])] | None = None

    @property
    def tags(self) -> list[str]:
        return [] if self.tag is None else self.tag.split(",")


class MinerTarget(JobTarget[MinerBulkFilter]):
    name = "miners"
    area = Area.commands
    filter_type = MinerBulkFilter

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    def check(self, conn: Connection, filters: MinerBulkFilter, allowed: AllowedIds) -> None:
        if len(filters.tags) > TAGS_MAX:
            raise BadInput("filter.tag", f"at most {TAGS_MAX} tags")
        for tag in filters.tags:
            check_tag(tag, "filter.tag")
        if filters.site_id is not None:
            check_body(allowed, filters.site_id, "filter.site_id")
            sites.require_site(conn, filters.site_id, "filter.site_id")
            if filters.zone_id is not None:
                sites.require_zone(conn, filters.site_id, filters.zone_id, "filter.zone_id")

    def scope(self, filters: MinerBulkFilter, allowed: AllowedIds) -> AllowedIds:
        return allowed if filters.site_id is None else AllowedIds(frozenset([filters.site_id]))

    def count(self, conn: Connection, filters: MinerBulkFilter, allowed: AllowedIds) -> int:
        row = conn.one(SQL.count, **_bound(filters, allowed))
        return 0 if row is None else int(row["miners"])

    def sample(self, conn: Connection, filters: MinerBulkFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        return with_tags(conn, [view(row) for row in self.rows_after(conn, filters, allowed, 0, limit)])

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["id"] is None else int(row["id"])

    def ids_after(
        self, conn: Connection, filters: MinerBulkFilter, allowed: AllowedIds, after: int, limit: int
    ) -> IdPage:
        return id_page([row["id"] for row in self.rows_after(conn, filters, allowed, after, limit)], limit)

    def rows_after(
        self, conn: Connection, filters: MinerBulkFilter, allowed: AllowedIds, after: int, limit: int
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


def _bound(filters: MinerBulkFilter, allowed: AllowedIds) -> dict[str, Any]:
    miner_ids = filters.miner_ids
    return {
        "site_id": filters.site_id,
        "zone_id": filters.zone_id,
        "miner_ids": None if miner_ids is None else msgspec.json.encode(miner_ids).decode(),
        "sites": allowed.as_json(),
        # Between commas, so that both engines can search the text for a tag.
        "tags": None if filters.tag is None else f",{filters.tag},",
        "tag_count": len(set(filters.tags)),
    }
