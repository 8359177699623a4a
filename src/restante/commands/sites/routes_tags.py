"""Routes for the tags of collectors and miners. Every change is in the audit trail of the site."""

from typing import Literal

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import site_scope
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity import tags
from restante.identity.grants import Area
from restante.identity.tags import TagList, check_tag
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

EdgeKind = Literal["collector", "miner"]
COLLECTOR = "/devices/{device_id}/tags/{tag}"
MINER = "/miners/{miner_id}/tags/{tag}"
_EVENTS: dict[EdgeKind, tuple[str, str]] = {
    "collector": ("collector.tagged", "collector.untagged"),
    "miner": ("miner.tagged", "miner.untagged"),
}


class AdminTagRoutes:
    def __init__(self, database: Database, trail: AuditTrail) -> None:
        self._database = database
        self._trail = trail

    def routes(self) -> list[Route]:
        collectors = RouteGroup("edge collectors", RESPONSE_FORMAT, "/api/edge/v1/admin", (404,), Area.commands)
        miners = RouteGroup("edge sites", RESPONSE_FORMAT, "/api/edge/v1/admin", (404,), Area.commands)
        operate, conflict = Access.operate, (409,)
        return [
            collectors.put(COLLECTOR, self.tag_collector, operate, "Add a tag to the collector", errors=conflict),
            collectors.delete(COLLECTOR, self.untag_collector, operate, "Remove a tag from the collector"),
            miners.put(MINER, self.tag_miner, operate, "Add a tag to the miner", errors=conflict),
            miners.delete(MINER, self.untag_miner, operate, "Remove a tag from the miner"),
        ]

    async def tag_collector(self, request: ApiRequest) -> TagList:
        """All tags of the collector. Adding a tag that the collector has changes nothing."""
        return await self._change(request, "collector", "device_id", is_added=True)

    async def untag_collector(self, request: ApiRequest) -> TagList:
        """All tags of the collector. Removing a tag that the collector does not have changes nothing."""
        return await self._change(request, "collector", "device_id", is_added=False)

    async def tag_miner(self, request: ApiRequest) -> TagList:
        """All tags of the miner. Adding a tag that the miner has changes nothing."""
        return await self._change(request, "miner", "miner_id", is_added=True)

    async def untag_miner(self, request: ApiRequest) -> TagList:
        """All tags of the miner. Removing a tag that the miner does not have changes nothing."""
        return await self._change(request, "miner", "miner_id", is_added=False)

    async def _change(self, request: ApiRequest, kind: EdgeKind, id_name: str, *, is_added: bool) -> TagList:
        resource_id, tag = request.path_id(id_name), check_tag(request.path_text("tag"))
        find = site_scope.site_of_collector if kind == "collector" else site_scope.site_of_miner
        site_id = await self._database.read(find, request.allowed, resource_id)
        return await self._database.write(
            _change_tag, self._trail, kind, site_id, resource_id, tag, request.actor, is_added=is_added
        )


def _change_tag(
    conn: Connection,
    trail: AuditTrail,
    kind: EdgeKind,
    site_id: int,
    resource_id: int,
    tag: str,
    actor: str,
    *,
    is_added: bool,
) -> TagList:
    change = tags.add if is_added else tags.remove
    if change(conn, kind, resource_id, tag):
        name = "device_id" if kind == "collector" else "miner_id"
        event = _EVENTS[kind][0 if is_added else 1]
        trail.record(conn, AuditEntry(site_id, actor, event, None, None, None, {name: resource_id, "tag": tag}))
    return TagList(tags.tags_of(conn, kind, resource_id))
