"""Events, for operators: publish, list, look at; how each client stands; what a client could not use."""

from typing import Any

import msgspec

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.events import client_status, listing, releasing
from restante.events.client_status import ClientStatus, ClientStatusDetail
from restante.events.listing import STATUSES, EventDetail, EventFilter, EventView
from restante.events.publish_requests import PUBLISHING, PublishBody, Published, PublishRequest
from restante.events.publishing import Publisher
from restante.events.releasing import Decision
from restante.events.wire import SHAPE
from restante.identity.callers import KeyHolder
from restante.web import idempotency
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.paging import PAGE_QUERY, Page, window_of
from restante.web.routes import Access, Query, Route

TAG = "events"
PATH = "/admin/events"

_LIST_QUERY = (
    *PAGE_QUERY,
    Query("client_id", "only events for this client", {"type": "string"}),
    Query("status", "only events in this state", {"type": "string", "enum": list(STATUSES)}),
    Query("txn", "only events of this transaction", {"type": "string"}),
)


class Decided(msgspec.Struct, frozen=True):
    """How many events it was done to."""

    count: int


class AdminEventRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, PATH + path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        one, client = "/{jti}", "/clients/{client_id}"
        gone = {"refusals": (404, 409)}
        return [
            route("POST", "", self.publish, Access.operate, "Publish an event", status=201, refusals=(404, 422)),
            route("GET", "", self.list_page, Access.read, "List events", query=_LIST_QUERY, refusals=(404,)),
            route("GET", one, self.show, Access.read, "Show an event, its claims and its deliveries", refusals=(404,)),
            route("POST", one + "/release", self.release, Access.operate, "Release an errored event", **gone),
            route("POST", one + "/drop", self.drop, Access.operate, "Drop an errored event", **gone),
            route("GET", "/clients", self.statuses, Access.read, "How each client stands", query=PAGE_QUERY),
            route("GET", client, self.status, Access.read, "How a client stands, with reasons", refusals=(404,)),
            route("POST", client + "/release", self.release_all, Access.operate, "Release all of it", refusals=(404,)),
            route("POST", client + "/drop", self.drop_all, Access.operate, "Drop all of it", refusals=(404,)),
        ]

    async def publish(self, ask: Ask, body: PublishBody) -> Published | Answer:
        """An event for one client (`client_id`), or for all that asked for its types (`all_subscribers`).

        A client that did not ask for any of its types is sent nothing: `jtis` is empty then. With an `Idempotency-Key`
        header, the same request sent again is answered as the first time and publishes nothing.
        """
        key = idempotency.key_of(ask)
        key_id = ask.caller.key_id if isinstance(ask.caller, KeyHolder) else None
        request = PublishRequest(body, Publisher(ask.actor, key_id), key)
        made = await self._database.run_hot(PUBLISHING, request)
        return made.as_answer()

    async def list_page(self, ask: Ask) -> Page[EventView]:
        """Newest first."""
        return await self._database.read(listing.list_page, _filter_of(ask), window_of(ask))

    async def show(self, ask: Ask) -> EventDetail:
        return await self._database.read(listing.show, ask.path_text("jti"))

    async def release(self, ask: Ask) -> EventDetail:
        """It is handed out again, the same bytes, and is the next to be."""
        return await self._decided(ask, Decision.release)

    async def drop(self, ask: Ask) -> EventDetail:
        """It is never handed out again."""
        return await self._decided(ask, Decision.drop)

    async def statuses(self, ask: Ask) -> Page[ClientStatus]:
        """For each client: what waits, what was delivered and is not acknowledged, what it could not use."""
        return await self._database.read(client_status.list_page, window_of(ask))

    async def status(self, ask: Ask) -> ClientStatusDetail:
        return await self._database.read(client_status.show, ask.path_text("client_id"))

    async def release_all(self, ask: Ask) -> Decided:
        """Everything that the client could not use is handed out again."""
        return await self._decided_all(ask, Decision.release)

    async def drop_all(self, ask: Ask) -> Decided:
        """Everything that the client could not use is never handed out again."""
        return await self._decided_all(ask, Decision.drop)

    async def _decided(self, ask: Ask, decision: Decision) -> EventDetail:
        jti = ask.path_text("jti")
        await self._database.write(releasing.decide, decision, jti, ask.actor)
        return await self._database.read(listing.show, jti)

    async def _decided_all(self, ask: Ask, decision: Decision) -> Decided:
        count = await self._database.write(releasing.decide_all, decision, ask.path_text("client_id"), ask.actor)
        return Decided(count)


def _filter_of(ask: Ask) -> EventFilter:
    status = ask.query_text("status")
    if status is not None and status not in STATUSES:
        raise BadInput("status", f"one of {', '.join(STATUSES)}")
    return EventFilter(ask.query_text("client_id"), status, ask.query_text("txn"))
