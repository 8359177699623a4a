"""The miners of a site: the machines that commands are for. Operators may keep the ids that they already use.

Every id is at most 2^53, the largest integer that every JSON parser reads exactly.

A miner that is added gets the reports that collectors sent about it before (`unknown_miners`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.sites import sites, unknown_miners
from restante.commands.sites.site_scope import site_filter
from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import FilteredList, StateCounting, among, begins, equal, is_null
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.identity import tags
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)


MinerStatus = Literal["active", "retired"]
STATUSES: tuple[MinerStatus, ...] = ("active", "retired")


class Miner(msgspec.Struct, frozen=True):
    """`replaced_by`: the miner that took the place of a retired one."""

    id: int
    site_id: int
    zone_id: int
    name: str
    created_at: Timestamp
    status: MinerStatus = "active"
    retired_at: Timestamp | None = None
    replaced_by: int | None = None
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


@dataclass(frozen=True, slots=True)
class MinerFilter:
    """None in a field: any value. `name`: the beginning of the name."""

    site_id: int | None = None
    zone_id: int | None = None
    name: str | None = None
    status: str | None = None


def list_page(conn: Connection, filters: MinerFilter, page: PageRequest, allowed: AllowedIds = ALL_IDS) -> Page[Miner]:
    """A page of the miners of the allowed sites, ordered by id."""
    found = filtered_list.read(conn, filtered(filters, allowed), page, view)
    return Page(with_tags(conn, found.items), found.next)


def counting(filters: MinerFilter, allowed: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the miners of the allowed sites that match, in each state."""
    status = "CASE WHEN retired_at IS NULL THEN 'active' ELSE 'retired' END"
    return StateCounting(lambda _conn: filtered(filters, allowed), status, STATUSES)


def filtered(filters: MinerFilter, allowed: AllowedIds) -> FilteredList:
    """The list of the miners that match: those of a zone or a site are read from its index."""
    site_id = site_filter(allowed, filters.site_id)
    of_zone, of_site = equal("zone_id", filters.zone_id), equal("site_id", site_id)
    return FilteredList(
        "id, site_id, zone_id, name, created_at, retired_at, replaced_by",
        "edge_miners",
        is_descending=False,
        indexed=of_zone or of_site,
        rest=(
            *(of_site if of_zone else ()),
            *among("site_id", None if site_id is not None and site_id in allowed else allowed.as_json()),
            *begins("name", filters.name),
            *is_null("retired_at", None if filters.status is None else filters.status == "active"),
        ),
    )


def get(conn: Connection, miner_id: int, allowed: AllowedIds = ALL_IDS) -> Miner:
    """The miner; NotFound if it is missing, or of a site that is not allowed."""
    row = conn.one(SQL.miner, miner_id=miner_id)
    if row is None or row["site_id"] not in allowed:
        raise NotFound("there is no such miner")
    return with_tags(conn, [view(row)])[0]


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
    """The miner without its tags."""
    return Miner(
        row["id"],
        row["site_id"],
        row["zone_id"],
        row["name"],
        iso_precise(row["created_at"]),
        "active" if row["retired_at"] is None else "retired",
        iso_precise(row["retired_at"]),
        row["replaced_by"],
    )


def with_tags(conn: Connection, found: Sequence[Miner]) -> list[Miner]:
    tagged = tags.tags_of_all(conn, "miner", [miner.id for miner in found])
    return [msgspec.structs.replace(miner, tags=tagged[miner.id]) for miner in found]
