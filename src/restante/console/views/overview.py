"""The overview: what needs attention first, then rates and backlogs, then the nodes."""

import math
import time
from collections.abc import Sequence

from restante.console.live import CLOCK, COMMANDS, EVENTS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import COUNT_WAIT_SECONDS, Attention, ConsoleRequest, Hit, Pages, PageSet
from restante.console.rates import CHARTS, Chart, Rates
from restante.console.scopes import allowed_in
from restante.console.server_facts import NodeRow, ServerFacts
from restante.identity.grants import Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

SEARCH_CHARACTERS_MAX = 200
ATTENTION_SECONDS = 1.0
ATTENTION_KEPT_MAX = 1000
_ORDER = ("away", "failed", "problem", "errored", "stuck", "overdue", "expiring", "paused", "waiting")


class OverviewPages(PageSet):
    """The overview and the search call every other page set."""

    def __init__(self, page_sets: Sequence[PageSet], rates: Rates, facts: ServerFacts) -> None:
        self._page_sets = page_sets
        self._rates = rates
        self._facts = facts
        self._attention: dict[tuple[int, str | None], tuple[float, list[Attention]]] = {}

    def routes(self, pages: Pages) -> list[Route]:
        return [pages.get("", self.show, None), pages.get("/search", self.search, None)]

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        attention = [
            item for each, narrowed in self._open_sets(request) for item in await self._attention_of(each, narrowed)
        ]
        attention.sort(key=_rank)
        nodes, now_ms = await self._facts.nodes(), request.parts.rendering.now_ms()
        charts = [chart for chart in CHARTS if _may_see(request, chart)]
        if any(chart.is_backlog for chart in charts):
            await self._rates.wait_for_backlogs(COUNT_WAIT_SECONDS)
        return request.render(
            "overview.html",
            section="overview",
            title="Overview",
            topics=(UPDATES, COMMANDS, EVENTS, CLOCK),
            attention=attention,
            charts=[self._chart(chart, nodes, now_ms) for chart in charts],
            nodes=nodes if request.may(None, Role.viewer) else None,
            node_count=sum(not node.is_away(now_ms) for node in nodes),
            away=self._facts.away() if request.may(None, Role.viewer) else [],
            now_ms=now_ms,
        )

    def _chart(self, chart: Chart, nodes: list[NodeRow], now_ms: int) -> dict[str, object]:
        values = self._rates.values(chart, nodes, now_ms)
        now, most = (values[-1], max(values)) if values else (0.0, 0.0)
        label = f"{chart.title}: {now:.1f} {chart.unit} now, at most {most:.1f} in the last five minutes"
        return {"title": chart.title, "unit": chart.unit, "now": now, "most": most, "values": values, "label": label}

    async def search(self, request: ConsoleRequest) -> ApiResponse:
        """Everything with this id or name. One result is opened at once."""
        text = (request.query_text("q") or "").strip()[:SEARCH_CHARACTERS_MAX]
        hits: list[Hit] = []
        for each, narrowed in self._open_sets(request) if text else ():
            hits += await each.find(narrowed, text)
        # A name is searched by its beginning; what has it whole comes first.
        hits.sort(key=lambda hit: hit.name.lower() != text.lower())
        if len(hits) == 1:
            return request.redirect(hits[0].path)
        return request.render("search.html", section="", title="Search", text=text, hits=hits, root=ROOT)

    async def _attention_of(self, page_set: PageSet, request: ConsoleRequest) -> list[Attention]:
        """What the page set reports. All open overviews of people who may see the same share one reading."""
        is_shared = page_set.needs is not None and page_set.needs.area is not None
        key = (id(page_set), request.allowed.as_json() if is_shared else f"person {request.person.user_id}")
        now = time.monotonic()
        read_at, items = self._attention.get(key, (-math.inf, []))
        if now - read_at >= ATTENTION_SECONDS:
            items = await page_set.attention(request)
            if len(self._attention) >= ATTENTION_KEPT_MAX:
                self._attention.clear()
            self._attention[key] = (now, items)
        return items

    def _open_sets(self, request: ConsoleRequest) -> list[tuple[PageSet, ConsoleRequest]]:
        """The page sets that are open to the person, each with a request limited to what they may see there."""
        pairs = [(each, request.narrowed_to(each.needs)) for each in self._page_sets]
        return [(each, narrowed) for each, narrowed in pairs if narrowed is not None]


def _may_see(request: ConsoleRequest, chart: Chart) -> bool:
    """A chart adds up all tenants of an area: it is for people who may see all of them."""
    if chart.area is None:
        return request.may(None, Role.viewer)
    allowed = allowed_in(request.person, chart.area, Role.viewer)
    return allowed is not None and allowed.are_all


def _rank(item: Attention) -> int:
    return _ORDER.index(item.kind) if item.kind in _ORDER else len(_ORDER)
