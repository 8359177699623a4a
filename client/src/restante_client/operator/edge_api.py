"""Operator routes: sites, zones, miners, collectors.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import UNSET, UnsetType

from restante_client.operator.core import BlockingNoun, Noun, as_body
from restante_client.runtime import blocking, blocking_iterator


class Site(TypedDict, total=False):
    id: int
    name: str
    default_zone_id: int
    created_at: str
    retired_at: str | None


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
    retired_at: str | None


class ZonePage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Zone]
    next: int | None


class Miner(TypedDict, total=False):
    """`replaced_by`: the miner that took the place of a retired one."""

    id: int
    site_id: int
    zone_id: int
    name: str
    created_at: str
    status: Literal["active", "retired"]
    retired_at: str | None
    replaced_by: int | None
    tags: list[str]


class MinerPage(TypedDict, total=False):
    """`next` is the `after` of the next page, or None on the last page."""

    items: list[Miner]
    next: int | None


class StateCounts(TypedDict, total=False):
    """How many items match the filter, and how many of these are in each state; and when they were counted."""

    total: ItemCount
    states: dict[str, Any]
    counted_at: str


class ItemCount(TypedDict, total=False):
    """How many items match; if `is_exact` is false, at least as many."""

    value: int
    is_exact: bool


class TagList(TypedDict, total=False):
    """All tags of a resource, in alphabetical order."""

    tags: list[str]


class MinerBulkFilter(TypedDict, total=False):
    """Miners of a site, of a zone, with these ids, or with a tag (or several, separated by commas: all of them)."""

    site_id: int | str | None
    zone_id: int | str | None
    miner_ids: list[int | str] | None
    tag: str | None


class JobView(TypedDict, total=False):
    """A job and its progress. `total`: how many rows matched when it was created. `done`, `failed`, `skipped`:
    items. `outcomes`, for actions that only start something: what became of it, by state. A bulk send of commands
    shows how many of them are pending, succeeded or failed.
    """

    job_id: str
    target: str
    action: str
    filter: Any
    params: Any
    state: str
    reason: str | None
    total: int
    done: int
    failed: int
    skipped: int
    rate_per_second: int | None
    created_by: str
    created_at: str
    approved_by: str | None
    started_at: str | None
    finished_at: str | None
    outcomes: dict[str, Any] | None


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
    tags: list[str]


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


class Sites(Noun):
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

    async def rename(self, site_id: int, *, name: str) -> Site:
        """Rename a site."""
        found: Site = await self.call(
            "PATCH", f"/api/edge/v1/admin/sites/{self.quoted(site_id)}", body=as_body(name=name)
        )
        return found

    async def retire(self, site_id: int) -> Site:
        """Retire a site."""
        found: Site = await self.call("POST", f"/api/edge/v1/admin/sites/{self.quoted(site_id)}/retire")
        return found


class BlockingSites(BlockingNoun[Sites]):
    list = blocking_iterator(Sites.list)
    list_page = blocking(Sites.list_page)
    get = blocking(Sites.get)
    create = blocking(Sites.create)
    rename = blocking(Sites.rename)
    retire = blocking(Sites.retire)


class Zones(Noun):
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

    async def rename(self, zone_id: int, *, name: str) -> Zone:
        """Rename a zone."""
        found: Zone = await self.call(
            "PATCH", f"/api/edge/v1/admin/zones/{self.quoted(zone_id)}", body=as_body(name=name)
        )
        return found

    async def retire(self, zone_id: int) -> Zone:
        """Retire a zone."""
        found: Zone = await self.call("POST", f"/api/edge/v1/admin/zones/{self.quoted(zone_id)}/retire")
        return found


class BlockingZones(BlockingNoun[Zones]):
    list = blocking_iterator(Zones.list)
    list_page = blocking(Zones.list_page)
    create = blocking(Zones.create)
    rename = blocking(Zones.rename)
    retire = blocking(Zones.retire)


class Miners(Noun):
    def list(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "retired"] | None = None,
    ) -> AsyncGenerator[Miner, None]:
        """List miners: all pages."""
        return self.pages(
            "/api/edge/v1/admin/miners", {"site_id": site_id, "zone_id": zone_id, "name": name, "status": status}
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "retired"] | None = None,
    ) -> MinerPage:
        """List miners: one page."""
        found: MinerPage = await self.call(
            "GET",
            "/api/edge/v1/admin/miners",
            query={
                "limit": limit,
                "after": after,
                "site_id": site_id,
                "zone_id": zone_id,
                "name": name,
                "status": status,
            },
        )
        return found

    async def get(self, miner_id: int) -> Miner:
        """Show a miner."""
        found: Miner = await self.call("GET", f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}")
        return found

    async def counts(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "retired"] | None = None,
    ) -> StateCounts:
        """Count miners."""
        found: StateCounts = await self.call(
            "GET",
            "/api/edge/v1/admin/miners/counts",
            query={"site_id": site_id, "zone_id": zone_id, "name": name, "status": status},
        )
        return found

    def export(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "retired"] | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export miners as a file."""
        return self.stream(
            "/api/edge/v1/admin/miners/export",
            {"site_id": site_id, "zone_id": zone_id, "name": name, "status": status, "format": format},
        )

    async def change(
        self,
        miner_id: int,
        *,
        name: str | UnsetType | None = UNSET,
        site_id: int | str | UnsetType | None = UNSET,
        zone_id: int | str | UnsetType | None = UNSET,
    ) -> Miner:
        """Rename or move a miner."""
        found: Miner = await self.call(
            "PATCH",
            f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}",
            body=as_body(name=name, site_id=site_id, zone_id=zone_id),
        )
        return found

    async def retire(self, miner_id: int) -> Miner:
        """Retire a miner."""
        found: Miner = await self.call("POST", f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}/retire")
        return found

    async def substitute(self, miner_id: int, *, name: str, id: int | str | UnsetType | None = UNSET) -> Miner:
        """Replace a miner by a new one."""
        found: Miner = await self.call(
            "POST", f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}/replace", body=as_body(name=name, id=id)
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

    async def tag(self, miner_id: int, tag: str) -> TagList:
        """Add a tag to the miner."""
        found: TagList = await self.call(
            "PUT", f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}/tags/{self.quoted(tag)}"
        )
        return found

    async def untag(self, miner_id: int, tag: str) -> TagList:
        """Remove a tag from the miner."""
        found: TagList = await self.call(
            "DELETE", f"/api/edge/v1/admin/miners/{self.quoted(miner_id)}/tags/{self.quoted(tag)}"
        )
        return found

    async def bulk(
        self,
        *,
        action: Literal["send"],
        all: bool | UnsetType = UNSET,
        params: Any | UnsetType = UNSET,
        dry_run: bool | UnsetType = UNSET,
        rate_per_second: int | UnsetType | None = UNSET,
        filter: MinerBulkFilter | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Send a command to all miners that match."""
        found: JobView = await self.call(
            "POST",
            "/api/edge/v1/admin/miners/bulk",
            body=as_body(
                all=all, params=params, dry_run=dry_run, rate_per_second=rate_per_second, action=action, filter=filter
            ),
            idempotency_key=idempotency_key,
        )
        return found


class BlockingMiners(BlockingNoun[Miners]):
    list = blocking_iterator(Miners.list)
    list_page = blocking(Miners.list_page)
    get = blocking(Miners.get)
    counts = blocking(Miners.counts)
    export = blocking_iterator(Miners.export)
    change = blocking(Miners.change)
    retire = blocking(Miners.retire)
    substitute = blocking(Miners.substitute)
    create = blocking(Miners.create)
    tag = blocking(Miners.tag)
    untag = blocking(Miners.untag)
    bulk = blocking(Miners.bulk)


class Collectors(Noun):
    def list(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
    ) -> AsyncGenerator[CollectorView, None]:
        """List collectors: all pages."""
        return self.pages(
            "/api/edge/v1/admin/devices",
            {
                "site_id": site_id,
                "zone_id": zone_id,
                "name": name,
                "status": status,
                "seen_before": seen_before,
                "seen_after": seen_after,
            },
        )

    async def list_page(
        self,
        *,
        limit: int | None = None,
        after: int | None = None,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
    ) -> CollectorViewPage:
        """List collectors: one page."""
        found: CollectorViewPage = await self.call(
            "GET",
            "/api/edge/v1/admin/devices",
            query={
                "limit": limit,
                "after": after,
                "site_id": site_id,
                "zone_id": zone_id,
                "name": name,
                "status": status,
                "seen_before": seen_before,
                "seen_after": seen_after,
            },
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

    async def counts(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
    ) -> StateCounts:
        """Count collectors by status."""
        found: StateCounts = await self.call(
            "GET",
            "/api/edge/v1/admin/devices/counts",
            query={
                "site_id": site_id,
                "zone_id": zone_id,
                "name": name,
                "status": status,
                "seen_before": seen_before,
                "seen_after": seen_after,
            },
        )
        return found

    def export(
        self,
        *,
        site_id: int | None = None,
        zone_id: int | None = None,
        name: str | None = None,
        status: Literal["active", "revoked"] | None = None,
        seen_before: str | None = None,
        seen_after: str | None = None,
        format: Literal["csv", "json"] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Export collectors as a file."""
        return self.stream(
            "/api/edge/v1/admin/devices/export",
            {
                "site_id": site_id,
                "zone_id": zone_id,
                "name": name,
                "status": status,
                "seen_before": seen_before,
                "seen_after": seen_after,
                "format": format,
            },
        )

    async def tag(self, device_id: int, tag: str) -> TagList:
        """Add a tag to the collector."""
        found: TagList = await self.call(
            "PUT", f"/api/edge/v1/admin/devices/{self.quoted(device_id)}/tags/{self.quoted(tag)}"
        )
        return found

    async def untag(self, device_id: int, tag: str) -> TagList:
        """Remove a tag from the collector."""
        found: TagList = await self.call(
            "DELETE", f"/api/edge/v1/admin/devices/{self.quoted(device_id)}/tags/{self.quoted(tag)}"
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


class BlockingCollectors(BlockingNoun[Collectors]):
    list = blocking_iterator(Collectors.list)
    list_page = blocking(Collectors.list_page)
    get = blocking(Collectors.get)
    create = blocking(Collectors.create)
    counts = blocking(Collectors.counts)
    export = blocking_iterator(Collectors.export)
    tag = blocking(Collectors.tag)
    untag = blocking(Collectors.untag)
    rotate = blocking(Collectors.rotate)
    revoke = blocking(Collectors.revoke)
    verify = blocking(Collectors.verify)
