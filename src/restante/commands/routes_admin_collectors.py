"""Collectors, for operators: add, list, rotate, revoke. Tokens and secrets are shown once, and that is recorded."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.commands import collectors, sites
from restante.commands.audit import AuditTrail
from restante.commands.collectors import Collector, NewCollector, SecretBox
from restante.commands.wire import SHAPE, iso, iso_or_none
from restante.database.connection import Connection
from restante.database.database import Database
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, page_of_items, window_of
from restante.web.routes import Access, Query, Route

TAG = "edge collectors"
PATH = "/api/edge/v1/admin/devices"
OVERLAP_MAX_SECONDS = 30 * 86_400

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Overlap = Annotated[int, Meta(ge=0, le=OVERLAP_MAX_SECONDS)]
_BY_SITE = (*PAGE_QUERY, Query("site_id", "only of this site", {"type": "integer", "minimum": 1}))


class CollectorBody(msgspec.Struct, forbid_unknown_fields=True):
    """Without a zone the collector serves the whole site."""

    site_id: Id
    device_name: Annotated[str, Meta(min_length=1, max_length=sites.NAME_CHARACTERS_MAX)]
    zone_id: Id | None = None


class RotationBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is replaced, and for how long the old secret still verifies ACKs; an old token ends at once."""

    what: Literal["both", "token", "hmac_secret"] = "both"
    overlap_sec: Overlap | None = None


class CollectorView(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    zone_id: int | None
    device_name: str
    status: Literal["active", "revoked"]
    created_at: str
    last_seen_at: str | None
    revoked_at: str | None
    old_secret_until: str | None


class NewCollectorView(msgspec.Struct, frozen=True):
    """`token` and `hmac_secret` are shown this once."""

    id: int
    token: str
    hmac_secret: str
    site_id: int
    zone_id: int | None
    device_name: str


class Rotated(msgspec.Struct, frozen=True):
    """What was replaced is shown this once."""

    id: int
    token: str | None
    hmac_secret: str | None
    old_secret_until: str | None


class AdminCollectorRoutes:
    def __init__(self, database: Database, trail: AuditTrail, box: SecretBox, *, secret_overlap_seconds: int) -> None:
        self._database = database
        self._trail = trail
        self._box = box
        self._secret_overlap_seconds = secret_overlap_seconds

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, PATH + path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        one = "/{device_id}"
        rotation = {"body_optional": True, "refusals": (409,)}
        return [
            route("POST", "", self.add, Access.administer, "Add a collector", status=201, refusals=(409,)),
            route("GET", "", self.list_page, Access.read, "List collectors", query=_BY_SITE),
            route("GET", one, self.get, Access.read, "Show a collector"),
            route("POST", one + "/rotate", self.rotate, Access.administer, "Replace token and secret", **rotation),
            route("POST", one + "/revoke", self.revoke, Access.administer, "Revoke a collector"),
            route("DELETE", one, self.revoke, Access.administer, "Revoke a collector"),
        ]

    async def add(self, ask: Ask, body: CollectorBody) -> NewCollectorView:
        made = await self._database.write(add, self._trail, self._box, body, ask.actor)
        return NewCollectorView(*made, body.site_id, body.zone_id, body.device_name)

    async def list_page(self, ask: Ask) -> Page[CollectorView]:
        window = window_of(ask)
        site_id = ask.query_int("site_id", 0, 1, INT64_MAX) or None
        found = await self._database.read(collectors.list_some, site_id, window.after, window.limit + 1)
        return page_of_items([view(each) for each in found], window, lambda each: each.id)

    async def get(self, ask: Ask) -> CollectorView:
        return view(await self._database.read(collectors.find, ask.path_id("device_id")))

    async def rotate(self, ask: Ask, body: RotationBody) -> Rotated:
        """A new token ends the old one at once; an old secret still verifies ACKs for the overlap."""
        overlap = self._secret_overlap_seconds if body.overlap_sec is None else body.overlap_sec
        wanted = RotationBody(body.what, overlap)
        return await self._database.write(rotate, self._trail, self._box, ask.path_id("device_id"), wanted, ask.actor)

    async def revoke(self, ask: Ask) -> CollectorView:
        """For good. What the collector holds is offered to others when its leases run out."""
        return await self._database.write(revoke, self._trail, ask.path_id("device_id"), ask.actor)


def add(conn: Connection, trail: AuditTrail, box: SecretBox, body: CollectorBody, actor: str) -> NewCollector:
    sites.require_site(conn, body.site_id)
    if body.zone_id is not None:
        sites.require_zone(conn, body.site_id, body.zone_id)
    name = sites.checked_name(body.device_name, "device_name")
    return collectors.create(conn, trail, box, body.site_id, body.zone_id, name, actor)


def rotate(
    conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int, wanted: RotationBody, actor: str
) -> Rotated:
    token = secret = None
    if wanted.what != "hmac_secret":
        token = collectors.rotate_token(conn, trail, device_id, actor)
    if wanted.what != "token":
        secret = collectors.rotate_secret(conn, trail, box, device_id, wanted.overlap_sec or 0, actor)
    return Rotated(device_id, token, secret, iso_or_none(collectors.find(conn, device_id).old_secret_until))


def revoke(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> CollectorView:
    collectors.revoke(conn, trail, device_id, actor)
    return view(collectors.find(conn, device_id))


def view(collector: Collector) -> CollectorView:
    return CollectorView(
        id=collector.id,
        site_id=collector.site_id,
        zone_id=collector.zone_id,
        device_name=collector.device_name,
        status="active" if collector.revoked_at is None else "revoked",
        created_at=iso(collector.created_at),
        last_seen_at=iso_or_none(collector.last_seen_at),
        revoked_at=iso_or_none(collector.revoked_at),
        old_secret_until=iso_or_none(collector.old_secret_until),
    )
