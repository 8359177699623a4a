"""What concerns the whole fleet: the outbox, for whoever looks after delivery, and the rollout's pace."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.delivery import outbox
from restante.delivery.outbox import OWN_SOURCE, OutboxRow
from restante.delivery.sources import Source, source_named
from restante.updates import rollout
from restante.updates.rollout import INTERVAL_SECONDS, INTERVAL_SECONDS_MAX, ROLLOUT_SECONDS_MAX, Rollout
from restante.updates.wire import SHAPE
from restante.web.ask import INT64_MAX, Ask
from restante.web.paging import PAGE_QUERY, Page, page_of_items, window_of
from restante.web.routes import Access, Query, Route

STATUSES = ("PENDING", "DELIVERED", "FAILED")
TAG = "fleet"
_STATUS = Query("status", "only rows of this status", {"type": "string", "enum": list(STATUSES)})
_DEVICE = Query("device_id", "only rows of this device", {"type": "integer"})

_SOURCE = Query("source", "the outbox of this name; without it the server's own", {"type": "string"})


class RolloutWish(msgspec.Struct, forbid_unknown_fields=True):
    for_seconds: Annotated[int, Meta(ge=1, le=ROLLOUT_SECONDS_MAX)]
    interval_seconds: Annotated[int, Meta(ge=1, le=INTERVAL_SECONDS_MAX)] = INTERVAL_SECONDS


class RolloutView(msgspec.Struct):
    active: bool
    until: float | None
    interval_seconds: int | None


class Retried(msgspec.Struct):
    retried: int


class OutboxView(msgspec.Struct):
    """An outbox: the server's own, or one in a database of the user's."""

    source: str
    reachable: bool
    pending: int | None = None
    failed: int | None = None
    oldest_pending_ms: int | None = None
    problem: str | None = None


class Outboxes(msgspec.Struct):
    items: list[OutboxView]


class FleetRoutes:
    def __init__(self, database: Database, sources: Mapping[str, Source]) -> None:
        self._database = database
        self._sources = sources

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        listed = (*PAGE_QUERY, _STATUS, _DEVICE, _SOURCE)
        return [
            route("GET", "/apiv1/outbox", self.rows, Access.oversee, "List outbox rows, newest first", query=listed),
            route("GET", "/apiv1/outboxes", self.outboxes, Access.oversee, "List the outboxes and how they stand"),
            route("GET", "/apiv1/outbox/{row_id}", self.row, Access.oversee, "Show an outbox row", query=(_SOURCE,)),
            route(
                "POST",
                "/apiv1/outbox/{row_id}/retry",
                self.retry,
                Access.steer,
                "Retry a FAILED row",
                query=(_SOURCE,),
                refusals=(409,),
            ),
            route(
                "POST", "/apiv1/outbox/retry", self.retry_all, Access.steer, "Retry every FAILED row", query=(_SOURCE,)
            ),
            route("GET", "/apiv1/rollout", self.show_rollout, Access.oversee, "Show the rollout that is on"),
            route("PUT", "/apiv1/rollout", self.start_rollout, Access.steer, "Start a rollout: the fleet polls faster"),
            route("DELETE", "/apiv1/rollout", self.stop_rollout, Access.steer, "Stop the rollout", status=204),
        ]

    async def outboxes(self, _ask: Ask) -> Outboxes:
        return Outboxes([await self._outbox_view(source) for source in self._sources.values()])

    async def rows(self, ask: Ask) -> Page[OutboxRow]:
        source = self._source(ask)
        window = window_of(ask)
        status = ask.query_text("status")
        if status is not None and status not in STATUSES:
            raise BadInput("status", f"one of {', '.join(STATUSES)}")
        device_id = ask.query_int("device_id", 0, 1, INT64_MAX) or None
        found = await source.database.read(
            outbox.list_rows, status, device_id, window.limit + 1, window.after, source.name
        )
        return page_of_items(found, window, lambda row: row.id)

    async def row(self, ask: Ask) -> OutboxRow:
        source = self._source(ask)
        row = await source.database.read(outbox.get_row, ask.path_id("row_id"), source.name)
        if row is None:
            raise NotFound()
        return row

    async def retry(self, ask: Ask) -> Retried:
        row = await self.row(ask)
        if not await self._retry(self._source(ask), [row.id]):
            raise Conflict(f"the row is {row.status}: only a FAILED one can be retried")
        return Retried(1)

    async def retry_all(self, ask: Ask) -> Retried:
        return Retried(await self._retry(self._source(ask), None))

    def _source(self, ask: Ask) -> Source:
        name = ask.query_text("source")
        return source_named(self._sources, OWN_SOURCE if name is None else name)

    async def _retry(self, source: Source, row_ids: list[int] | None) -> int:
        reset = await source.database.write(outbox.retry, row_ids)
        source.ring()
        return reset

    async def _outbox_view(self, source: Source) -> OutboxView:
        try:
            counts = await source.database.read(outbox.counts)
        except DatabaseError as error:
            return OutboxView(source.name, False, problem=str(error))
        return OutboxView(source.name, True, counts["pending"], counts["failed"], counts["oldest_pending_ms"])

    async def show_rollout(self, _ask: Ask) -> RolloutView:
        return _view(await self._database.read(rollout.current))

    async def start_rollout(self, _ask: Ask, body: RolloutWish) -> RolloutView:
        return _view(await self._database.write(rollout.start, body.for_seconds, body.interval_seconds))

    async def stop_rollout(self, _ask: Ask) -> None:
        await self._database.write(rollout.stop)


def _view(found: Rollout | None) -> RolloutView:
    return RolloutView(False, None, None) if found is None else RolloutView(True, found.until, found.interval_seconds)
