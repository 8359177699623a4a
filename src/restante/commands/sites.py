"""Sites and their zones. Every site has a default zone, made with it: what names no zone belongs there.

Names are unique: of a site among all sites, of a zone within its site. Both are for good: commands and the audit trail
refer to them.
"""

import msgspec

from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.wire import iso
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

DEFAULT_ZONE_NAME = "default"
NAME_CHARACTERS_MAX = 100


class Site(msgspec.Struct, frozen=True):
    id: int
    name: str
    default_zone_id: int
    created_at: str


class Zone(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    name: str
    is_default: bool
    created_at: str


def add(conn: Connection, trail: AuditTrail, name: str, actor: str) -> Site:
    """A new site with its default zone."""
    row = conn.one(SQL.insert_site, name=checked_name(name), now_ms=conn.now_ms)
    if row is None:
        raise Conflict(f"there is a site named {name}")
    zone = conn.one(SQL.insert_zone, site_id=row["id"], name=DEFAULT_ZONE_NAME, is_default=1, now_ms=conn.now_ms)
    assert zone is not None  # noqa: S101 — the site is new, nothing can be in the zone's way
    trail.record(conn, AuditEntry(row["id"], actor, "site.created", None, None, None, {"name": name}))
    return Site(row["id"], name, zone["id"], iso(conn.now_ms))


def get(conn: Connection, site_id: int) -> Site:
    row = conn.one(SQL.site, site_id=site_id)
    if row is None:
        raise NotFound("there is no such site")
    return _site(row)


def list_page(conn: Connection, window: Window) -> Page[Site]:
    rows = conn.all(SQL.sites, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _site)


def add_zone(conn: Connection, trail: AuditTrail, site_id: int, name: str, actor: str) -> Zone:
    require_site(conn, site_id)
    row = conn.one(SQL.insert_zone, site_id=site_id, name=checked_name(name), is_default=0, now_ms=conn.now_ms)
    if row is None:
        raise Conflict(f"the site has a zone named {name}")
    detail = {"zone_id": row["id"], "name": name}
    trail.record(conn, AuditEntry(site_id, actor, "zone.created", None, None, None, detail))
    return _zone(row)


def list_zones(conn: Connection, site_id: int | None, window: Window) -> Page[Zone]:
    """The zones of a site, or, without one, all."""
    rows = conn.all(SQL.zones, site_id=site_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _zone)


def require_site(conn: Connection, site_id: int) -> Site:
    """The site that somebody names in a request about something else."""
    row = conn.one(SQL.site, site_id=site_id)
    if row is None:
        raise BadInput("site_id", "the id of a site")
    return _site(row)


def require_zone(conn: Connection, site_id: int, zone_id: int) -> int:
    if conn.one(SQL.zone_of_site, site_id=site_id, zone_id=zone_id) is None:
        raise BadInput("zone_id", "the id of a zone of the site")
    return zone_id


def checked_name(name: str, field: str = "name") -> str:
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise BadInput(field, f"1 to {NAME_CHARACTERS_MAX} printable characters, no space at the ends")
    return name


def _site(row: Row) -> Site:
    return Site(row["id"], row["name"], row["default_zone_id"], iso(row["created_at"]))


def _zone(row: Row) -> Zone:
    return Zone(row["id"], row["site_id"], row["name"], bool(row["is_default"]), iso(row["created_at"]))
