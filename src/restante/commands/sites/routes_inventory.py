"""Routes that change the inventory: rename, move, retire and replace sites, zones and miners. For administrators."""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.body_ids import BodyWithIds, Id, MinerId
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import inventory, site_scope
from restante.commands.sites.inventory import MinerChange
from restante.commands.sites.miners import Miner
from restante.commands.sites.sites import NAME_CHARACTERS_MAX, Site, Zone
from restante.database.database import Database
from restante.identity.grants import Area
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

TAG = "edge sites"
PATH = "/api/edge/v1/admin"

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]


class NameBody(msgspec.Struct, forbid_unknown_fields=True):
    name: Name


class MinerChangeBody(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    """A field that is not given stays as it is. With `site_id` alone the miner moves to the site's default zone."""

    id_fields = ("site_id", "zone_id")

    name: Name | None = None
    site_id: Id | None = None
    zone_id: Id | None = None


class ReplacementBody(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    """The new miner. `id`: the id that it already has; without it, the next free id."""

    id_fields = ("id",)

    name: Name
    id: MinerId | None = None


class InventoryRoutes:
    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, errors=(404, 409), area=Area.commands)
        site, zone, miner, administer = "/sites/{site_id}", "/zones/{zone_id}", "/miners/{miner_id}", Access.administer
        named = ({"name": "Hall North 2"},)
        return [
            group.patch(site, self.rename_site, administer, "Rename a site", examples=named),
            group.post(site + "/retire", self.retire_site, administer, "Retire a site"),
            group.patch(zone, self.rename_zone, administer, "Rename a zone", examples=named),
            group.post(zone + "/retire", self.retire_zone, administer, "Retire a zone"),
            group.patch(
                miner, self.change_miner, administer, "Rename or move a miner", examples=({"name": "S19-0001b"},)
            ),
            group.post(miner + "/retire", self.retire_miner, administer, "Retire a miner"),
            group.post(
                miner + "/replace",
                self.replace_miner,
                administer,
                "Replace a miner by a new one",
                status=201,
                examples=({"name": "S19-0002"},),
            ),
        ]

    async def rename_site(self, request: ApiRequest, body: NameBody) -> Site:
        site_id = request.path_id("site_id")
        site_scope.check_site(request.allowed, site_id)
        return await self._database.write(inventory.rename_site, self._trail, site_id, body.name, request.actor)

    async def retire_site(self, request: ApiRequest) -> Site:
        """A site with active miners, active collectors or open commands is refused. Nothing new can be added to a
        retired site; its commands and audit rows stay."""
        site_id = request.path_id("site_id")
        site_scope.check_site(request.allowed, site_id)
        return await self._database.write(inventory.retire_site, self._trail, site_id, request.actor)

    async def rename_zone(self, request: ApiRequest, body: NameBody) -> Zone:
        zone_id = request.path_id("zone_id")
        return await self._database.write(
            inventory.rename_zone, self._trail, zone_id, body.name, request.actor, request.allowed
        )

    async def retire_zone(self, request: ApiRequest) -> Zone:
        """A zone with active miners, active collectors or open commands is refused, and so is the default zone."""
        zone_id = request.path_id("zone_id")
        return await self._database.write(inventory.retire_zone, self._trail, zone_id, request.actor, request.allowed)

    async def change_miner(self, request: ApiRequest, body: MinerChangeBody) -> Miner:
        """Commands are dispatched by site and zone: a miner with open commands cannot be moved. To another site it
        moves only if no rule names it."""
        change = MinerChange(body.name, body.site_id, body.zone_id)
        return await self._database.write(
            inventory.change_miner, self._trail, request.path_id("miner_id"), change, request.actor, request.allowed
        )

    async def retire_miner(self, request: ApiRequest) -> Miner:
        """No command can be for a retired miner. One with open commands, or that a rule names, is refused."""
        return await self._database.write(
            inventory.retire_miner, self._trail, request.path_id("miner_id"), request.actor, request.allowed
        )

    async def replace_miner(self, request: ApiRequest, body: ReplacementBody) -> Miner:
        """The new miner takes the zone of the old one, and its place in rules; the old one is retired."""
        return await self._database.write(
            inventory.replace_miner,
            self._trail,
            request.path_id("miner_id"),
            body.name,
            body.id,
            request.actor,
            request.allowed,
        )
