"""The overview: what needs attention first, then rates and backlogs, then the nodes."""

from collections.abc import Sequence

from restante.console.live import CLOCK, COMMANDS, EVENTS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Pages, PageSet
from restante.web.response import ApiResponse
from restante.web.routes import Route

SEARCH_CHARACTERS_MAX = 200
_ORDER = ("away", "failed", "problem", "errored", "stuck", "overdue", "expiring", "waiting")


class OverviewPages(PageSet):
    """The overview and the search ask every other page set."""

    def __init__(self, page_sets: Sequence[PageSet]) -> None:
        self._page_sets = page_sets

    def routes(self, pages: Pages) -> list[Route]:
        return [pages.get("", self.show, None), pages.get("/search", self.search, None)]

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        attention = [item for each, narrowed in self._open_sets(request) for item in await each.attention(narrowed)]
        attention.sort(key=_rank)
        return request.render(
            "overview.html",
            section="overview",
            title="Overview",
            topics=(UPDATES, COMMANDS, EVENTS, CLOCK),
            attention=attention,
        )

    async def search(self, request: ConsoleRequest) -> ApiResponse:
        """Everything with this id or name. One result is opened at once."""
        text = (request.query_text("q") or "").strip()[:SEARCH_CHARACTERS_MAX]
        hits: list[Hit] = []
        for each, narrowed in self._open_sets(request) if text else ():
            hits += await each.find(narrowed, text)
        if len(hits) == 1:
            return request.redirect(hits[0].path)
        return request.render("search.html", section="", title="Search", text=text, hits=hits, root=ROOT)

    def _open_sets(self, request: ConsoleRequest) -> list[tuple[PageSet, ConsoleRequest]]:
        """The page sets that are open to the person, each with a request limited to what they may see there."""
        pairs = [(each, request.narrowed_to(each.needs)) for each in self._page_sets]
        return [(each, narrowed) for each, narrowed in pairs if narrowed is not None]


def _rank(item: Attention) -> int:
    return _ORDER.index(item.kind) if item.kind in _ORDER else len(_ORDER)
