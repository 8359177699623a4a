"""The audit trails: of edge commands (filter, verify, export), of events, and of people, keys and devices.

The trail of edge commands is a chain of keyed hashes. The other two are tables to which rows are only added.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from restante.commands.audit import audit_listing
from restante.commands.audit.audit_listing import EVENTS as EVENTS_OF_TRAIL
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification
from restante.commands.audit.routes import PATH as EXPORT_PATH
from restante.commands.audit.signed_heads import RememberedHead
from restante.console.live import COMMANDS, EVENTS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import ALL_ADMIN, ConsoleRequest, Needs, Pages, PageSet
from restante.console.views import saved_filters
from restante.core.decoding import INT64_MAX
from restante.core.errors import NotFound
from restante.core.iso_time import parse_iso
from restante.database.paging import Page
from restante.events.publishing import event_audit
from restante.identity import access_audit
from restante.identity.access_audit import AccessChange
from restante.identity.grants import Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/audit"
COMMANDS_PATH, EVENTS_PATH, ACCESS_PATH = PATH + "/commands", PATH + "/events", PATH + "/access"
READ, READ_EVENTS = Needs(Area.commands), Needs(Area.events)
READ_ALL = Needs(None)


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a trail that is no chain."""

    at: int | str
    actor: str
    event: str
    about: str
    detail: msgspec.Raw


class AuditPages(PageSet):
    needs = READ

    def __init__(self, trail: AuditTrail, remembered: RememberedHead | None) -> None:
        self._mac = trail.mac
        self._remembered = remembered

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.get(PATH, self.show_first, None),
            pages.get(COMMANDS_PATH, self.show_list, READ),
            pages.post(PATH + "/verify", self.verify, READ_ALL),
            pages.get(EVENTS_PATH, self.show_events, READ_EVENTS),
            pages.get(ACCESS_PATH, self.show_access, ALL_ADMIN),
        ]

    async def show_first(self, request: ConsoleRequest) -> ApiResponse:
        """The first trail that the person may see."""
        for needs, show in ((READ, self.show_list), (READ_EVENTS, self.show_events)):
            narrowed = request.narrowed_to(needs)
            if narrowed is not None:
                return await show(narrowed)
        raise NotFound("There is no such page, or your grants do not include it.")

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request)

    async def show_events(self, request: ConsoleRequest) -> ApiResponse:
        """What people and programs did with events and clients."""
        client_id = (request.query_text("client") or "").strip() or None
        page = await request.read(event_audit.list_page, client_id, request.page(), request.allowed)
        rows = [Change(each.at_ms, each.actor, each.event, each.client_id or "", each.detail) for each in page.items]
        return self._changes(request, EVENTS_PATH, "Client", Page(rows, page.next))

    async def show_access(self, request: ConsoleRequest) -> ApiResponse:
        """What people did with other people, keys, devices and the outbox."""
        page = await request.read(access_audit.list_page, None, None, request.page())
        rows = [Change(each.at, each.actor, each.event, _subject(each), each.detail) for each in page.items]
        return self._changes(request, ACCESS_PATH, "About", Page(rows, page.next))

    def _changes(self, request: ConsoleRequest, path: str, about: str, page: "Page[Change]") -> ApiResponse:
        return request.render(
            "audit/changes.html",
            section="audit",
            title="Audit",
            topics=(EVENTS, UPDATES),
            page=page,
            about=about,
            tabs=_tabs(request),
            here=ROOT + path,
            address=request.page_link,
        )

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
            saved=await saved_filters.shown_filters(request, saved_filters.AUDIT),
            values=dict(request.http.query_params),
            export_path=f"{EXPORT_PATH}/export",
            may_verify=request.may(None, Role.viewer),
            tabs=_tabs(request),
            here=f"{ROOT}{COMMANDS_PATH}",
            events=EVENTS_OF_TRAIL,
        )


def _tabs(request: ConsoleRequest) -> list[tuple[str, str]]:
    """The trails that the person may see: name and address."""
    needed = (
        ("Commands and sites", COMMANDS_PATH, READ),
        ("Events and clients", EVENTS_PATH, READ_EVENTS),
        ("People, keys and devices", ACCESS_PATH, ALL_ADMIN),
    )
    return [(name, ROOT + path) for name, path, needs in needed if request.narrowed_to(needs) is not None]


def _subject(change: AccessChange) -> str:
    if change.person_id is not None:
        return f"person {change.person_id}"
    return "" if change.key_id is None else f"key {change.key_id}"


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
