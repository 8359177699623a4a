"""The miners of a site: what commands are for. An operator may bring the ids they already use."""

import msgspec

from restante.commands import sites
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.wire import iso
from restante.core.errors import BadInput, Conflict
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)


class Miner(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    zone_id: int
    name: str
    created_at: str


class MinerWish(msgspec.Struct, frozen=True):
    """`zone_id` None: the site's default zone; `id` None: the next one free."""

    site_id: int
    name: str
    zone_id: int | None = None
    id: int | None = None


class Target(msgspec.Struct, frozen=True):
    """What a command needs to know of a miner."""

    id: int
    zone_id: int


def add(conn: Connection, trail: AuditTrail, wish: MinerWish, actor: str) -> Miner:
    site = sites.require_site(conn, wish.site_id)
    zone_id = site.default_zone_id if wish.zone_id is None else sites.require_zone(conn, site.id, wish.zone_id)
    if wish.id is not None:
        conn.lock("miner ids", 0)
    row = conn.one(
        SQL.insert_miner if wish.id is None else SQL.insert_miner_with_id,
        miner_id=wish.id,
        site_id=site.id,
        zone_id=zone_id,
        name=sites.checked_name(wish.name),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict(f"there is a miner with the id {wish.id}")
    detail = {"miner_id": row["id"], "zone_id": zone_id, "name": wish.name}
    trail.record(conn, AuditEntry(site.id, actor, "miner.created", None, None, None, detail))
    return _miner(row)


def list_page(conn: Connection, site_id: int | None, zone_id: int | None, window: Window) -> Page[Miner]:
    """The miners of a site, a zone, or all."""
    query = SQL.miners if site_id is None else SQL.miners_of_site
    rows = conn.all(query, site_id=site_id, zone_id=zone_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _miner)


def require_one(conn: Connection, site_id: int, miner_id: int) -> Target:
    row = conn.one(SQL.miner_of_site, site_id=site_id, miner_id=miner_id)
    if row is None:
        raise BadInput("miner_id", "the id of a miner of the site")
    return Target(row["id"], row["zone_id"])


def all_of(conn: Connection, site_id: int, zone_id: int | None) -> list[Target]:
    """The miners of the site, or of one of its zones, by id."""
    rows = conn.all(SQL.targets, site_id=site_id, zone_id=zone_id)
    return [Target(row["id"], row["zone_id"]) for row in rows]


def _miner(row: Row) -> Miner:
    return Miner(row["id"], row["site_id"], row["zone_id"], row["name"], iso(row["created_at"]))
