"""Sites, zones and miners, for operators. Everybody who may look sees all of them; changing them is for admins."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.commands import miners, sites
from restante.commands.audit import AuditTrail
from restante.commands.miners import Miner, MinerWish
from restante.commands.sites import NAME_CHARACTERS_MAX, Site, Zone
from restante.commands.wire import SHAPE
from restante.database.database import Database
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

TAG = "edge sites"
PATH = "/api/edge/v1/admin"

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
_ID = {"type": "integer", "minimum": 1}
_BY_SITE = (*PAGE_QUERY, Query("site_id", "only of this site", _ID))
_BY_ZONE = (*_BY_SITE, Query("zone_id", "only of this zone", _ID))


class SiteBody(msgspec.Struct, forbid_unknown_fields=True):
    name: Name


class ZoneBody(msgspec.Struct, forbid_unknown_fields=True):
    site_id: Id
    name: Name


class MinerBody(msgspec.Struct, forbid_unknown_fields=True):
    """Ids are signed as JSON numbers, so they are no larger than every reader of JSON can hold."""

    site_id: Id
    name: Name
    zone_id: Id | None = None
    id: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class AdminSiteRoutes:
    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, PATH + path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        made = {"status": 201, "refusals": (409,)}
        return [
            route("POST", "/sites", self.add_site, Access.administer, "Add a site", **made),
            route("GET", "/sites", self.list_sites, Access.read, "List sites", query=PAGE_QUERY),
            route("GET", "/sites/{site_id}", self.get_site, Access.read, "Show a site"),
            route("POST", "/zones", self.add_zone, Access.administer, "Add a zone to a site", **made),
            route("GET", "/zones", self.list_zones, Access.read, "List zones", query=_BY_SITE),
            route("POST", "/miners", self.add_miner, Access.administer, "Add a miner", **made),
            route("GET", "/miners", self.list_miners, Access.read, "List miners", query=_BY_ZONE),
        ]

    async def add_site(self, ask: Ask, body: SiteBody) -> Site:
        """A site has a default zone from the start."""
        return await self._database.write(sites.add, self._trail, body.name, ask.actor)

    async def list_sites(self, ask: Ask) -> Page[Site]:
        return await self._database.read(sites.list_page, window_of(ask))

    async def get_site(self, ask: Ask) -> Site:
        return await self._database.read(sites.get, ask.path_id("site_id"))

    async def add_zone(self, ask: Ask, body: ZoneBody) -> Zone:
        return await self._database.write(sites.add_zone, self._trail, body.site_id, body.name, ask.actor)

    async def list_zones(self, ask: Ask) -> Page[Zone]:
        return await self._database.read(sites.list_zones, _id_asked(ask, "site_id"), window_of(ask))

    async def add_miner(self, ask: Ask, body: MinerBody) -> Miner:
        wish = MinerWish(body.site_id, body.name, body.zone_id, body.id)
        return await self._database.write(miners.add, self._trail, wish, ask.actor)

    async def list_miners(self, ask: Ask) -> Page[Miner]:
        site_id, zone_id = _id_asked(ask, "site_id"), _id_asked(ask, "zone_id")
        return await self._database.read(miners.list_page, site_id, zone_id, window_of(ask))


def _id_asked(ask: Ask, name: str) -> int | None:
    return ask.query_int(name, 0, 1, INT64_MAX) or None
