"""The server itself: the settings in force, what the doctor finds, and the nodes and external systems that are away."""

import asyncio

from restante.console.navigation import ROOT
from restante.console.pages import ALL_ADMIN, Attention, ConsoleRequest, Needs, Pages, PageSet
from restante.console.server_facts import CheckResult, ServerFacts
from restante.identity.grants import Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/settings"
_ORDER = {"problem": 0, "warning": 1, "ok": 2}


class SystemPages(PageSet):
    needs = Needs(None, Role.viewer)

    def __init__(self, facts: ServerFacts) -> None:
        self._facts = facts
        # One run of the checks at a time: they read the whole database.
        self._checking = asyncio.Lock()

    def routes(self, pages: Pages) -> list[Route]:
        return [
            pages.get(PATH, self.show_settings, ALL_ADMIN),
            pages.get(PATH + "/doctor", self.show_checks, ALL_ADMIN),
        ]

    async def show_settings(self, request: ConsoleRequest) -> ApiResponse:
        rows = self._facts.settings()
        only_changed = request.query_text("show") == "changed"
        return request.render(
            "settings/list.html",
            section="settings",
            title="Settings",
            rows=[row for row in rows if row.is_changed] if only_changed else rows,
            only_changed=only_changed,
            total=len(rows),
            changed=sum(row.is_changed for row in rows),
            address=request.page_link,
        )

    async def show_checks(self, request: ConsoleRequest) -> ApiResponse:
        """The same checks as `restante doctor`, on this node, run when the page is opened."""
        async with self._checking:
            results: list[CheckResult] = await asyncio.to_thread(self._facts.check)
        return request.render(
            "settings/doctor.html",
            section="settings",
            title="Doctor",
            results=sorted(results, key=lambda result: _ORDER[result.state]),
            at_ms=request.parts.rendering.now_ms(),
        )

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        now_ms = request.parts.rendering.now_ms()
        nodes = [node for node in await self._facts.nodes() if node.is_away(now_ms)]
        # The outbox pages report outboxes themselves.
        away = [name for name in self._facts.away() if not name.startswith("outbox ")]
        return [
            *(
                Attention("away", f"Node {node.listen} does not answer", f"{ROOT}#nodes", 1, node.seen_at, node.host)
                for node in nodes
            ),
            *(
                Attention("away", f"{name} cannot be reached", f"{ROOT}#nodes", 1, hint="The server works without it.")
                for name in away
            ),
        ]
