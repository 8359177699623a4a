"""Sites and their zones. Every site is created with a default zone, which holds everything that names no zone.

Site names are unique among all sites, zone names within their site. Neither can be deleted, because commands and the
audit trail refer to them; inventory.py renames and retires them.
"""

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

DEFAULT_ZONE_NAME = "default"
NAME_CHARACTERS_MAX = 100


class Site(msgspec.Struct, frozen=True):
    id: int
    name: str
    default_zone_id: int
    created_at: Timestamp
    retired_at: Timestamp | None = None


class Zone(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    name: str
    is_default: bool
    created_at: Timestamp
    retired_at: Timestamp | None = None


def add(conn: Connection, trail: AuditTrail, name: str, actor: str) -> Site:
    """Create a site with its default zone."""
    row = conn.one(SQL.insert_site, name=checked_name(name), now_ms=conn.now_ms)
    if row is None:
        raise Conflict(f"a site named {name} already exists")
    zone = conn.one(SQL.insert_zone, site_id=row["id"], name=DEFAULT_ZONE_NAME, is_default=1, now_ms=conn.now_ms)
    assert zone is not None  # noqa: S101 — the site is new, so no other zone can have this name
    trail.record(conn, AuditEntry(row["id"], actor, "site.created", None, None, None, {"name": name}))
    return Site(row["id"], name, zone["id"], iso_precise(conn.now_ms))


def get(conn: Connection, site_id: int) -> Site:
    row = conn.one(SQL.site, site_id=site_id)
    if row is None:
        raise NotFound("there is no such site")
    return _site(row)


def list_page(conn: Connection, page: PageRequest, sites: AllowedIds = ALL_IDS) -> Page[Site]:
    rows = conn.all(SQL.sites, sites=sites.as_json(), after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "id", _site)


def add_zone(conn: Connection, trail: AuditTrail, site_id: int, name: str, actor: str) -> Zone:
    require_site(conn, site_id)
    row = conn.one(SQL.insert_zone, site_id=site_id, name=checked_name(name), is_default=0, now_ms=conn.now_ms)
    if row is None:
        raise Conflict(f"the site already has a zone named {name}")
    detail = {"zone_id": row["id"], "name": name}
    trail.record(conn, AuditEntry(site_id, actor, "zone.created", None, None, None, detail))
    return _zone(row)


def list_zones(conn: Connection, site_id: int | None, page: PageRequest, sites: AllowedIds = ALL_IDS) -> Page[Zone]:
    """A page of the zones of one site, or of all allowed sites."""
    rows = conn.all(SQL.zones, site_id=site_id, sites=sites.as_json(), after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "id", _zone)


def get_zone(conn: Connection, zone_id: int) -> Zone:
    row = conn.one(SQL.zone, zone_id=zone_id)
    if row is None:
        raise NotFound("there is no such zone")
    return _zone(row)


def require_site(conn: Connection, site_id: int, field: str = "site_id") -> Site:
    """The site that a request refers to; BadInput if it does not exist or is retired."""
    row = conn.one(SQL.site, site_id=site_id)
    if row is None:
        raise BadInput(field, "the id of a site")
    if row["retired_at"] is not None:
        raise BadInput(field, "the id of a site that is not retired")
    return _site(row)


def require_zone(conn: Connection, site_id: int, zone_id: int, field: str = "zone_id") -> int:
    if conn.one(SQL.zone_of_site, site_id=site_id, zone_id=zone_id) is None:
        raise BadInput(field, "the id of a zone of the site")
    return zone_id


def checked_name(name: str, field: str = "name") -> str:
    if not 1 <= len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip():
        raise BadInput(field, f"1 to {NAME_CHARACTERS_MAX} printable characters without leading or trailing spaces")
    return name


def _site(row: Row) -> Site:
    return Site(
        row["id"], row["name"], row["default_zone_id"], iso_precise(row["created_at"]), iso_precise(row["retired_at"])
    )


def _zone(row: Row) -> Zone:
    return Zone(
        row["id"],
        row["site_id"],
        row["name"],
        bool(row["is_default"]),
        iso_precise(row["created_at"]),
        iso_precise(row["retired_at"]),
    )
