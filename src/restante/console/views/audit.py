"""The audit trail of edge commands: look into it, filter it, verify it, export it."""

import asyncio

from restante.commands.audit import audit_listing
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification
from restante.commands.audit.routes import PATH as EXPORT_PATH
from restante.commands.audit.signed_heads import RememberedHead
from restante.console.live import COMMANDS
from restante.console.pages import ConsoleRequest, Needs, Pages, PageSet
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import parse_iso
from restante.identity.grants import Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/audit"
READ = Needs(Area.commands)
READ_ALL = Needs(None)


class AuditPages(PageSet):
    needs = READ

    def __init__(self, trail: AuditTrail, remembered: RememberedHead | None) -> None:
        self._mac = trail.mac
        self._remembered = remembered

    def routes(self, pages: Pages) -> list[Route]:
        return [pages.get(PATH, self.show_list, READ), pages.post(PATH + "/verify", self.verify, READ_ALL)]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request)

    async def verify(self, request: ConsoleRequest) -> ApiResponse:
        """Read all chains, in steps, and say whether they are unbroken and include the row that is remembered."""
        remembered = () if self._remembered is None else await asyncio.to_thread(self._remembered.checkpoints)
        verification = LiveVerification(self._mac, remembered)
        while await request.read(verification.step):
            pass
        return await self._page(request, verification.verdict)

    async def _page(self, request: ConsoleRequest, verdict: ChainVerdict | None = None) -> ApiResponse:
        filters = _filters(request)
        page = await request.read(audit_listing.list_page, filters, request.page(), request.allowed)
        return request.render(
            "audit/list.html",
            section="audit",
            title="Audit",
            topics=(COMMANDS,),
            page=page,
            filters=filters,
            verdict=verdict,
            address=request.page_link,
            values=dict(request.http.query_params),
            export_path=f"{EXPORT_PATH}/export",
            may_verify=request.may(None, Role.viewer),
        )


def _filters(request: ConsoleRequest) -> AuditFilter:
    def text(name: str) -> str | None:
        return (request.query_text(name) or "").strip() or None

    since, until = text("since"), text("until")
    return AuditFilter(
        site_id=request.query_int("site", 0, 1, INT64_MAX) if text("site") else None,
        command_id=text("command"),
        actor=text("actor"),
        event=text("event"),
        since_ms=None if since is None else parse_iso(since, "since"),
        until_ms=None if until is None else parse_iso(until, "until"),
    )
