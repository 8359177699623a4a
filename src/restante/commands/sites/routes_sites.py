"""Routes for sites, zones and miners: add, list, count and export them. routes_inventory.py changes them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.body_ids import BodyWithIds, Id, MinerId
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import miners, site_scope, sites
from restante.commands.sites.miners import Miner, MinerFilter, MinerRequest
from restante.commands.sites.sites import NAME_CHARACTERS_MAX, Site, Zone
from restante.core.decoding import INT64_MAX
from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page
from restante.identity.grants import Area
from restante.web.paging import (
    FORMAT,
    PAGE_QUERY,
    check_filters,
    counted,
    export,
    export_info,
    page_request_of,
    query_choice,
    query_prefix,
)
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup

TAG = "edge sites"
PATH = "/api/edge/v1/admin"

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
_ID = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_BY_SITE = (*PAGE_QUERY, Query("site_id", "only items of this site", _ID))
_MINER_FILTERS = (
    Query("site_id", "only items of this site", _ID),
    Query("zone_id", "only items of this zone", _ID),
    Query("name", "only miners whose name begins with this", {"type": "string", "minLength": 1}),
    Query("status", "only miners with this status", {"type": "string", "enum": list(miners.STATUSES)}),
)
_MINER_LIST = (*PAGE_QUERY, *_MINER_FILTERS)
_MINER_EXPORT = (*_MINER_FILTERS, FORMAT)


class SiteBody(msgspec.Struct, forbid_unknown_fields=True):
    name: Name


class ZoneBody(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    id_fields = ("site_id",)

    site_id: Id
    name: Name


class MinerBody(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    id_fields = ("site_id", "zone_id", "id")

    site_id: Id
    name: Name
    zone_id: Id | None = None
    id: MinerId | None = None


class AdminSiteRoutes:
    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.commands)

        return [
            group.post(
                "/sites",
                self.add_site,
                Access.administer,
                "Add a site",
                examples=({"name": "Hall North"},),
                status=201,
                errors=(409,),
            ),
            group.get("/sites", self.list_sites, Access.read, "List sites", query=PAGE_QUERY),
            group.get("/sites/{site_id}", self.get_site, Access.read, "Show a site"),
            group.post(
                "/zones",
                self.add_zone,
                Access.administer,
                "Add a zone to a site",
                examples=({"site_id": 1, "name": "Row 7"},),
                status=201,
                errors=(409,),
            ),
            group.get("/zones", self.list_zones, Access.read, "List zones", query=_BY_SITE),
            group.post(
                "/miners",
                self.add_miner,
                Access.administer,
                "Add a miner",
                examples=({"site_id": 1, "name": "S19-0001"},),
                status=201,
                errors=(409,),
            ),
            group.get("/miners", self.list_miners, Access.read, "List miners", query=_MINER_LIST),
            group.get("/miners/counts", self.count_miners, Access.read, "Count miners", query=_MINER_FILTERS),
            group.get(
                "/miners/export",
                self.export_miners,
                Access.read,
                "Export miners as a file",
                query=_MINER_EXPORT,
                responses=(export_info(Miner),),
            ),
            group.get("/miners/{miner_id}", self.get_miner, Access.read, "Show a miner"),
        ]

    async def add_site(self, request: ApiRequest, body: SiteBody) -> Site:
        """The site is created with a default zone."""
        request.require_all("this adds a site")
        return await self._database.write(sites.add, self._trail, body.name, request.actor)

    async def list_sites(self, request: ApiRequest) -> Page[Site]:
        return await self._database.read(sites.list_page, page_request_of(request), request.allowed)

    async def get_site(self, request: ApiRequest) -> Site:
        site_id = request.path_id("site_id")
        site_scope.check_site(request.allowed, site_id)
        return await self._database.read(sites.get, site_id)

    async def add_zone(self, request: ApiRequest, body: ZoneBody) -> Zone:
        site_scope.check_body(request.allowed, body.site_id)
        return await self._database.write(sites.add_zone, self._trail, body.site_id, body.name, request.actor)

    async def list_zones(self, request: ApiRequest) -> Page[Zone]:
        site_id, page = _optional_id(request, "site_id"), page_request_of(request)
        return await self._database.read(sites.list_zones, site_id, page, request.allowed)

    async def add_miner(self, request: ApiRequest, body: MinerBody) -> Miner:
        site_scope.check_body(request.allowed, body.site_id)
        miner = MinerRequest(body.site_id, body.name, body.zone_id, body.id)
        return await self._database.write(miners.add, self._trail, miner, request.actor)

    async def list_miners(self, request: ApiRequest) -> Page[Miner]:
        check_filters(request, _MINER_LIST)
        return await self._database.read(
            miners.list_page, _filter_of(request), page_request_of(request), request.allowed
        )

    async def count_miners(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined miners; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _MINER_FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: miners.counting(filters, request.allowed))

    async def export_miners(self, request: ApiRequest) -> ApiResponse:
        """All miners that match, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _MINER_EXPORT)
        filters = _filter_of(request)
        return await export(
            request,
            "miners",
            Miner,
            lambda page: self._database.read(miners.list_page, filters, page, request.allowed),
        )

    async def get_miner(self, request: ApiRequest) -> Miner:
        return await self._database.read(miners.get, request.path_id("miner_id"), request.allowed)


def _filter_of(request: ApiRequest) -> MinerFilter:
    return MinerFilter(
        site_id=_optional_id(request, "site_id"),
        zone_id=_optional_id(request, "zone_id"),
        name=query_prefix(request, "name"),
        status=query_choice(request, "status", miners.STATUSES),
    )


def _optional_id(request: ApiRequest, name: str) -> int | None:
    return request.query_int(name, 0, 1, INT64_MAX) or None
