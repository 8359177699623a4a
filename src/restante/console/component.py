"""The console as one component: its pages, its assets, and the stream that keeps open pages live."""

from collections.abc import Callable, Mapping, Sequence

from restante.commands.dispatch.settlement import CommandFailed
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.console.live import COMMANDS, EVENTS, JOBS, UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import ConsoleParts, ConsoleRequest, Pages, PageSet, redirect
from restante.console.rates import Rates
from restante.console.rendering.rendering import ASSETS, ASSETS_PATH, asset_url
from restante.console.sign_in import InvitationPages, SignInPages
from restante.core.errors import NotFound
from restante.database.commit_events import ForeignCommit
from restante.delivery.log.log import LogAdvanced, SignalsPublished
from restante.delivery.outbox.outbox import Enqueued
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing.publishing import EventsToSign
from restante.events.push.receivers import PushDue
from restante.identity.callers import ClientRevoked, CollectorRevoked, DeviceRevoked
from restante.jobs.jobs import JobsDue
from restante.updates.pki.assignments import WrapsPending
from restante.updates.polling.poll_boost import PollBoostChanged
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.component import Component, EventHandler, Service
from restante.web.request import ApiRequest
from restante.web.response import HTML, NO_STORE, ApiResponse
from restante.web.routes import Access, Route

# Which topic a commit event changes. Other nodes send the same events.
TOPIC_OF_EVENT: dict[type, str] = {
    Enqueued: UPDATES,
    SignalsPublished: UPDATES,
    LogAdvanced: UPDATES,
    DeviceRevoked: UPDATES,
    WrapsPending: UPDATES,
    PollBoostChanged: UPDATES,
    CommandsChanged: COMMANDS,
    CommandFailed: COMMANDS,
    CollectorRevoked: COMMANDS,
    InboxChanged: EVENTS,
    EventsToSign: EVENTS,
    PushDue: EVENTS,
    ClientRevoked: EVENTS,
    JobsDue: JOBS,
}

_MEDIA_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
_STREAM_HEADERS = ((b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no"))


class ConsoleComponent(Component):
    def __init__(self, parts: ConsoleParts, rates: Rates, page_sets: Sequence[PageSet]) -> None:
        self._parts = parts
        self._rates = rates
        self._page_sets = page_sets
        self._pages = Pages(parts)
        self._assets = {path.name: path for path in ASSETS.iterdir() if path.suffix in _MEDIA_TYPES}

    def pages(self) -> list[Route]:
        pages = self._pages
        page_sets = (SignInPages(pages), InvitationPages(pages), *self._page_sets)
        return [
            Route("GET", "/", self.root, Access.open, "", RESPONSE_FORMAT, "console"),
            pages.open("GET", ASSETS_PATH + "{name}", self.asset),
            pages.get("/live", self.live, None),
            *(route for each in page_sets for route in each.routes(pages)),
            pages.get("/{rest:path}", self.unknown, None),
        ]

    async def root(self, request: ApiRequest) -> ApiResponse:
        """Browsers are sent to the console. For programs there is nothing at this path."""
        if HTML in request.http.headers.get("accept", ""):
            return redirect(ROOT)
        raise NotFound("there is nothing at this path")

    async def asset(self, request: ApiRequest) -> ApiResponse:
        path = self._assets.get(request.path_text("name"))
        if path is None:
            raise NotFound()
        is_versioned = asset_url(path.name).endswith(f"?v={request.query_text('v')}")
        kept = _FOR_EVER if is_versioned else (b"cache-control", b"no-cache")
        return ApiResponse(200, ((b"content-type", _MEDIA_TYPES[path.suffix]), kept), path.read_bytes())

    async def live(self, request: ConsoleRequest) -> ApiResponse:
        """The stream of a live page. A browser that connects again names the last event that it got."""
        if request.http.method == "HEAD":
            return ApiResponse(200, _STREAM_HEADERS)
        position = request.http.headers.get("last-event-id") or request.query_text("after") or ""
        topics = (request.query_text("topics") or "").split(",")
        return ApiResponse(200, _STREAM_HEADERS, stream=self._parts.live.open(request.person.user_id, topics, position))

    async def unknown(self, _request: ConsoleRequest) -> ApiResponse:
        raise NotFound("There is no such page, or your grants do not include it.")

    def services(self) -> list[Service]:
        return [Service("console rates", self._rates.run)]

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        marks: dict[type, EventHandler] = {each: self._mark(topic) for each, topic in TOPIC_OF_EVENT.items()}
        return {**marks, ForeignCommit: lambda _: self._parts.live.mark_all()}

    def _mark(self, topic: str) -> EventHandler:
        mark: Callable[[str], None] = self._parts.live.mark
        return lambda _event: mark(topic)

    def recheck(self) -> None:
        self._parts.live.mark_all()

    def tick(self, _now: float) -> None:
        self._parts.live.tick()

    def close(self) -> None:
        self._parts.live.close()
