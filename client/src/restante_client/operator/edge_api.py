"""Operator routes: sites, zones, miners, collectors.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingGroup, Group, as_body
from restante_client.runtime import blocking, blocking_iterator


class Site(TypedDict, total=False):
    id: int
    name: str
    default_zone_id: int
    created_at: str


class SitePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Site]
    next: int | None


class Zone(TypedDict, total=False):
    id: int
    site_id: int
    name: str
    is_default: bool
    created_at: str


class ZonePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Zone]
    next: int | None


class Miner(TypedDict, total=False):
    id: int
    site_id: int
    zone_id: int
    name: str
    created_at: str


class MinerPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Miner]
    next: int | None


class CollectorView(TypedDict, total=False):
    id: int
    site_id: int
    zone_id: int | None
    device_name: str
    status: Literal["active", "revoked"]
    created_at: str
    last_seen_at: str | None
    revoked_at: str | None
    old_secret_until: str | None


class CollectorViewPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[CollectorView]
    next: int | None


class NewCollectorView(TypedDict, total=False):
    """`token` and `hmac_secret` are shown only in this response."""

    id: int
    token: str
    hmac_secret: str
    site_id: int
    zone_id: int | None
    device_name: str


class RotationResult(TypedDict, total=False):
    """The new credentials, shown only in this response; None if not replaced."""

    id: int
    token: str | None
    hmac_secret: str | None
    old_secret_until: str | None


class SignatureVerdicts(TypedDict, total=False):
    items: list[CommandSignature]


class CommandSignature(TypedDict, total=False):
    command_id: str | None
    valid: bool
    reason: str


class Sites(Group):
    def list(self) -> AsyncGenerator[Site, None]:
        """List sites: all pages."""
        return self.pages("/api/edge/v1/admin/sites", {})

    async def list_page(self, *, limit: int | None = None, after: int | None = None) -> SitePage:
        """List sites: one page."""
        found: SitePage = await self.call("GET", "/api/edge/v1/admin/sites", query={"limit": limit, "after": after})
        return found

    async def get(self, site_id: int) -> Site:
        """Show a site."""
        found: Site = await self.call("GET", f"/api/edge/v1/admin/sites/{self.quoted(site_id)}")
        return found

    async def create(self, *, name: str) -> Site:
        """Add a site."""
        found: Site = await self.call("POST", "/api/edge/v1/admin/sites", body=as_body(name=name))
        return found


class BlockingSites(BlockingGroup[Sites]):
    list = blocking_iterator(Sites.list)
    list_page = blocking(Sites.list_page)
    get = blocking(Sites.get)
    create = blocking(Sites.create)


class Zones(Group):
    def list(self, *, site_id: int | None = None) -> AsyncGenerator[Zone, None]:
        """List zones: all pages."""
        return self.pages("/api/edge/v1/admin/zones", {"site_id": site_id})

    async def list_page(
        self, *, limit: int | None = None, after: int | None = None, site_id: int | None = None
    ) -> ZonePage:
        """List zones: one page."""
        found: ZonePage = await self.call(
            "GET", "/api/edge/v1/admin/zones", query={"limit": limit, "after": after, "site_id": site_id}
        )
        return found

    async def create(self, *, site_id: int | str, name: str) -> Zone:
        """Add a zone to a site."""
        found: Zone = await self.call("POST", "/api/edge/v1/admin/zones", body=as_body(site_id=site_id, name=name))
        return found


class BlockingZones(BlockingGroup[Zones]):
    list = blocking_iterator(Zones.list)
    list_page = blocking(Zones.list_page)
    create = blocking(Zones.create)


class Miners(Group):
    def list(self, *, site_id: int | None = None, zone_id: int | None = None) -> AsyncGenerator[Miner, None]:
        """List miners: all pages."""
        return self.pages("/api/edge/v1/admin/miners", {"site_id": site_id, "zone_id": zone_id})

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        site_id: int | None = None,
        zone_id: int | None = None,
    ) -> MinerPage:
        """List miners: one page."""
        found: MinerPage = await self.call(
            "GET",
            "/api/edge/v1/admin/miners",
            query={"limit": limit, "after": after, "site_id": site_id, "zone_id": zone_id},
        )
        return found

    async def create(
        self,
        *,
        site_id: int | str,
        name: str,
        zone_id: int | str | UnsetType | None = UNSET,
        id: int | str | UnsetType | None = UNSET,
    ) -> Miner:
        """Add a miner."""
        found: Miner = await self.call(
            "POST", "/api/edge/v1/admin/miners", body=as_body(site_id=site_id, name=name, zone_id=zone_id, id=id)
        )
        return found


class BlockingMiners(BlockingGroup[Miners]):
    list = blocking_iterator(Miners.list)
    list_page = blocking(Miners.list_page)
    create = blocking(Miners.create)


class Collectors(Group):
    def list(self, *, site_id: int | None = None) -> AsyncGenerator[CollectorView, None]:
        """List collectors: all pages."""
        return self.pages("/api/edge/v1/admin/devices", {"site_id": site_id})

    async def list_page(
        self, *, limit: int | None = None, after: int | None = None, site_id: int | None = None
    ) -> CollectorViewPage:
        """List collectors: one page."""
        found: CollectorViewPage = await self.call(
            "GET", "/api/edge/v1/admin/devices", query={"limit": limit, "after": after, "site_id": site_id}
        )
        return found

    async def get(self, device_id: int) -> CollectorView:
        """Show a collector."""
        found: CollectorView = await self.call("GET", f"/api/edge/v1/admin/devices/{self.quoted(device_id)}")
        return found

    async def create(
        self, *, site_id: int | str, device_name: str, zone_id: int | str | UnsetType | None = UNSET
    ) -> NewCollectorView:
        """Add a collector."""
        found: NewCollectorView = await self.call(
            "POST",
            "/api/edge/v1/admin/devices",
            body=as_body(site_id=site_id, device_name=device_name, zone_id=zone_id),
        )
        return found

    async def rotate(
        self,
        device_id: int,
        *,
        what: Literal["both", "hmac_secret", "token"] | UnsetType = UNSET,
        overlap_sec: int | UnsetType | None = UNSET,
    ) -> RotationResult:
        """Replace token and secret."""
        found: RotationResult = await self.call(
            "POST",
            f"/api/edge/v1/admin/devices/{self.quoted(device_id)}/rotate",
            body=as_body(what=what, overlap_sec=overlap_sec),
        )
        return found

    async def revoke(self, device_id: int) -> CollectorView:
        """Revoke a collector."""
        found: CollectorView = await self.call("POST", f"/api/edge/v1/admin/devices/{self.quoted(device_id)}/revoke")
        return found

    async def verify(self, device_id: int, *, commands: Sequence[Mapping[str, Any]]) -> SignatureVerdicts:
        """Check the signatures of commands with the collector's secret."""
        found: SignatureVerdicts = await self.call(
            "POST", f"/api/edge/v1/admin/devices/{self.quoted(device_id)}/verify", body=as_body(commands=commands)
        )
        return found


class BlockingCollectors(BlockingGroup[Collectors]):
    list = blocking_iterator(Collectors.list)
    list_page = blocking(Collectors.list_page)
    get = blocking(Collectors.get)
    create = blocking(Collectors.create)
    rotate = blocking(Collectors.rotate)
    revoke = blocking(Collectors.revoke)
    verify = blocking(Collectors.verify)
