"""The miners of a site: the machines that commands are for. Operators may keep the ids that they already use.

Every id is at most 2^53, the largest integer that every JSON parser reads exactly.

A miner that is added gets the reports that collectors sent about it before (`unknown_miners`).
"""

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.sites import sites, unknown_miners
from restante.commands.sites.site_scope import site_filter
from restante.core.errors import BadInput, Conflict
from restante.core.iso_time import iso
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity import tags
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)


class Miner(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    zone_id: int
    name: str
    created_at: str
    tags: list[str] = msgspec.field(default_factory=list)


class MinerRequest(msgspec.Struct, frozen=True):
    """`zone_id` None means the site's default zone; `id` None means the next free id."""

    site_id: int
    name: str
    zone_id: int | None = None
    id: int | None = None


class Target(msgspec.Struct, frozen=True):
    """The part of a miner that a command needs."""

    id: int
    zone_id: int


def add(conn: Connection, trail: AuditTrail, request: MinerRequest, actor: str) -> Miner:
    site = sites.require_site(conn, request.site_id)
    zone_id = site.default_zone_id if request.zone_id is None else sites.require_zone(conn, site.id, request.zone_id)
    # The next id depends on all others.
    conn.lock("miner ids", 0)
    row = conn.one(
        SQL.insert_miner if request.id is None else SQL.insert_miner_with_id,
        miner_id=request.id,
        site_id=site.id,
        zone_id=zone_id,
        name=sites.checked_name(request.name),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict(f"a miner with the id {request.id} already exists")
    detail = {"miner_id": row["id"], "zone_id": zone_id, "name": request.name}
    linked_events = unknown_miners.link(conn, site.id, row["id"])
    if linked_events:
        detail["linked_safety_events"] = linked_events
    trail.record(conn, AuditEntry(site.id, actor, "miner.created", None, None, None, detail))
    return view(row)


def list_page(
    conn: Connection, site_id: int | None, zone_id: int | None, page: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[Miner]:
    """A page of the miners of one site, one zone, or all allowed sites."""
    site_id = site_filter(allowed, site_id)
    query = SQL.miners if site_id is None else SQL.miners_of_site
    filters = {"site_id": site_id, "zone_id": zone_id, "sites": allowed.as_json()}
    rows = conn.all(query, **filters, after=page.after, limit=page.limit + 1)
    tagged = tags.tags_of_all(conn, "miner", [row["id"] for row in rows])
    return page_of(rows, page, "id", lambda row: msgspec.structs.replace(view(row), tags=tagged[row["id"]]))


def require_miner(conn: Connection, site_id: int, miner_id: int) -> Target:
    row = conn.one(SQL.miner_of_site, site_id=site_id, miner_id=miner_id)
    if row is None:
        raise BadInput("miner_id", "the id of a miner of the site")
    return Target(row["id"], row["zone_id"])


def list_targets(conn: Connection, site_id: int, zone_id: int | None) -> list[Target]:
    """All miners of the site, or of one of its zones, ordered by id."""
    rows = conn.all(SQL.targets, site_id=site_id, zone_id=zone_id)
    return [Target(row["id"], row["zone_id"]) for row in rows]


def view(row: Row) -> Miner:
    return Miner(row["id"], row["site_id"], row["zone_id"], row["name"], iso(row["created_at"]))
