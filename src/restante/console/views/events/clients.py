"""Event clients: who waits for what, why, who was refused, and what to do about it."""

from restante.console.live import CLOCK, EVENTS
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.core.iso_time import iso_precise, parse_iso
from restante.database.paging import PageRequest
from restante.events.clients import clients, refusals
from restante.events.clients.routes_client_state import NewestPoll
from restante.events.publishing import client_explanation, client_status, errored_events, listing
from restante.events.publishing.client_status import ClientStatus
from restante.events.publishing.errored_events import Resolution
from restante.events.publishing.listing import EventFilter
from restante.identity.grants import Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/clients"
READ, OPERATE = Needs(Area.events), Needs(Area.events, Role.operator)
ADMIN = Needs(Area.events, Role.admin)
ROWS = 20
ATTENTION_ROWS = 200
CLIENTS_SEARCHED = 500
# Clients poll every few minutes at the most.
SILENT_MS = 3_600_000
# From when on the form offers to deliver events again.
SINCE_MS = 3_600_000


class ClientPages(PageSet):
    needs = READ

    def __init__(self, newest_poll: NewestPoll) -> None:
        self._newest_poll = newest_poll

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{client_id}"
        return [
            pages.get(PATH, self.show_list, READ),
            pages.get(one, self.show, READ),
            pages.post(one + "/suspend", self.suspend, ADMIN),
            pages.post(one + "/resume", self.resume, ADMIN),
            pages.post(one + "/release", self.release, OPERATE),
            pages.post(one + "/drop", self.drop, OPERATE, is_final=True),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        page = await request.read(client_status.list_page, request.page(), request.allowed)
        return request.render(
            "clients/list.html",
            section="clients",
            title="Clients",
            topics=(EVENTS, CLOCK),
            page=page,
            state_of=lambda status: _state(status, request.parts.rendering.now_ms()),
            address=request.page_link,
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        client_id = self._client_id(request)
        client = await request.read(clients.get, client_id)
        polled_ms = self._newest_poll(client.id, client.last_poll_at)
        status = await request.read(client_status.show, client_id)
        events = await request.read(listing.list_page, EventFilter(client_id), PageRequest(ROWS, 0), request.allowed)
        now_ms = request.parts.rendering.now_ms()
        return request.render(
            "clients/client.html",
            section="clients",
            title=client.name,
            topics=(EVENTS, CLOCK),
            client=client,
            status=status,
            why=await request.read(client_explanation.explain, client_id, polled_ms),
            refusals=await request.read(refusals.last_refusals, client_id),
            events=events.items,
            polled_ms=polled_ms,
            path=path_of(client_id),
            since=iso_precise(now_ms - SINCE_MS)[:16],
            may_operate=client.removed_at is None and request.may(Area.events, Role.operator, client_id),
            may_administer=client.removed_at is None and request.may(Area.events, Role.admin, client_id),
        )

    async def suspend(self, request: ConsoleRequest) -> ApiResponse:
        client_id = self._client_id(request)
        await request.write(clients.suspend, client_id, request.actor)
        return request.redirect(path_of(client_id), done="client-suspended")

    async def resume(self, request: ConsoleRequest) -> ApiResponse:
        client_id = self._client_id(request)
        await request.write(clients.resume, client_id, request.actor)
        return request.redirect(path_of(client_id), done="client-resumed")

    async def release(self, request: ConsoleRequest) -> ApiResponse:
        return await self._resolve(request, Resolution.release, "events-released")

    async def drop(self, request: ConsoleRequest) -> ApiResponse:
        return await self._resolve(request, Resolution.drop, "events-dropped")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if text in request.allowed and clients.is_client_id(text):
            client = await request.read(clients.find, text)
            if client is not None:
                return [Hit("Client", client.name, path_of(text), f"client {text}")]
        some = await request.read(clients.names, CLIENTS_SEARCHED, request.allowed)
        found = [each for each in some if each.name.lower().startswith(text.lower())]
        return [Hit("Client", each.name, path_of(each.client_id), f"client {each.client_id}") for each in found[:ROWS]]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        now_ms = request.parts.rendering.now_ms()
        page = await request.read(client_status.list_page, PageRequest(ATTENTION_ROWS, 0), request.allowed)
        errored = [each for each in page.items if each.errored]
        silent = [each for each in page.items if _state(each, now_ms) == "overdue"]
        found = []
        if errored:
            total = sum(each.errored for each in errored)
            found.append(Attention("errored", "Events were refused by their clients", _target(errored), total))
        if silent:
            oldest = min(parse_iso(each.oldest_at, "oldest_at") for each in silent if each.oldest_at is not None)
            found.append(Attention("overdue", "Clients do not poll", _target(silent), len(silent), oldest))
        return found

    async def _resolve(self, request: ConsoleRequest, resolution: Resolution, done: str) -> ApiResponse:
        client_id = self._client_id(request)
        await request.write(errored_events.resolve_all, resolution, client_id, request.actor)
        return request.redirect(path_of(client_id), done=done)

    def _client_id(self, request: ConsoleRequest) -> str:
        client_id = request.path_text("client_id")
        request.require(client_id)
        return client_id


def path_of(client_id: str) -> str:
    return f"{ROOT}{PATH}/{client_id}"


def _target(found: list[ClientStatus]) -> str:
    return path_of(found[0].client_id) if len(found) == 1 else f"{ROOT}{PATH}"


def _state(status: ClientStatus, now_ms: int) -> str:
    """A client is overdue if events have waited for an hour, and it has not polled for as long."""
    if status.is_removed:
        return "removed"
    if status.is_suspended:
        return "suspended"
    if status.oldest_at is None:
        return "active"
    waited = now_ms - parse_iso(status.oldest_at, "oldest_at")
    polled = now_ms - parse_iso(status.last_poll_at, "last_poll_at") if status.last_poll_at else waited
    return "overdue" if min(waited, polled) > SILENT_MS else "active"
