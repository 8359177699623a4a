"""What concerns the whole fleet: the outbox, for whoever looks after delivery, and the rollout's pace."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.delivery import outbox
from restante.delivery.outbox import OutboxRow
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


class RolloutWish(msgspec.Struct, forbid_unknown_fields=True):
    for_seconds: Annotated[int, Meta(ge=1, le=ROLLOUT_SECONDS_MAX)]
    interval_seconds: Annotated[int, Meta(ge=1, le=INTERVAL_SECONDS_MAX)] = INTERVAL_SECONDS


class RolloutView(msgspec.Struct):
    active: bool
    until: float | None
    interval_seconds: int | None


class Retried(msgspec.Struct):
    retried: int


class FleetRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, path, handler, access, summary, shape=SHAPE, tag=TAG, **more)

        listed = (*PAGE_QUERY, _STATUS, _DEVICE)
        return [
            route("GET", "/apiv1/outbox", self.rows, Access.oversee, "List outbox rows, newest first", query=listed),
            route("GET", "/apiv1/outbox/{row_id}", self.row, Access.oversee, "Show an outbox row"),
            route(
                "POST", "/apiv1/outbox/{row_id}/retry", self.retry, Access.steer, "Retry a FAILED row", refusals=(409,)
            ),
            route("POST", "/apiv1/outbox/retry", self.retry_all, Access.steer, "Retry every FAILED row"),
            route("GET", "/apiv1/rollout", self.show_rollout, Access.oversee, "Show the rollout that is on"),
            route("PUT", "/apiv1/rollout", self.start_rollout, Access.steer, "Start a rollout: the fleet polls faster"),
            route("DELETE", "/apiv1/rollout", self.stop_rollout, Access.steer, "Stop the rollout", status=204),
        ]

    async def rows(self, ask: Ask) -> Page[OutboxRow]:
        window = window_of(ask)
        status = ask.query_text("status")
        if status is not None and status not in STATUSES:
            raise BadInput("status", f"one of {', '.join(STATUSES)}")
        device_id = ask.query_int("device_id", 0, 1, INT64_MAX) or None
        found = await self._database.read(outbox.list_rows, status, device_id, window.limit + 1, window.after)
        return page_of_items(found, window, lambda row: row.id)

    async def row(self, ask: Ask) -> OutboxRow:
        row = await self._database.read(outbox.get_row, ask.path_id("row_id"))
        if row is None:
            raise NotFound()
        return row

    async def retry(self, ask: Ask) -> Retried:
        row = await self.row(ask)
        if not await self._database.write(outbox.retry, [row.id]):
            raise Conflict(f"the row is {row.status}: only a FAILED one can be retried")
        return Retried(1)

    async def retry_all(self, _ask: Ask) -> Retried:
        return Retried(await self._database.write(outbox.retry, None))

    async def show_rollout(self, _ask: Ask) -> RolloutView:
        return _view(await self._database.read(rollout.current))

    async def start_rollout(self, _ask: Ask, body: RolloutWish) -> RolloutView:
        return _view(await self._database.write(rollout.start, body.for_seconds, body.interval_seconds))

    async def stop_rollout(self, _ask: Ask) -> None:
        await self._database.write(rollout.stop)


def _view(found: Rollout | None) -> RolloutView:
    return RolloutView(False, None, None) if found is None else RolloutView(True, found.until, found.interval_seconds)
