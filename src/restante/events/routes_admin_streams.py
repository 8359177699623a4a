"""Streams of shared signals, for operators: list them, and stop or start one. Its receiver is told."""

from typing import Any, Literal

import msgspec

from restante.database.connection import Connection
from restante.database.database import Database
from restante.events import streams
from restante.events.event_audit import record
from restante.events.routes_stream_control import Reason
from restante.events.streams import Stream
from restante.events.wire import SHAPE
from restante.web.ask import Ask
from restante.web.paging import PAGE_QUERY, Page, page_of_items, window_of
from restante.web.routes import Access, Route

TAG = "event clients"
PATH = "/admin/streams"


class StreamStatusBody(msgspec.Struct, forbid_unknown_fields=True):
    """`reason` is told to the receiver."""

    status: Literal["enabled", "paused", "disabled"]
    reason: Reason | None = None


class StreamRow(msgspec.Struct):
    id: int
    stream_id: str
    client_id: str
    status: Literal["enabled", "paused", "disabled"]
    reason: str | None
    events_delivered: list[str]
    description: str | None
    push_url: str | None


class AdminStreamRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        def route(method: str, path: str, access: Access, **more: Any) -> Route:
            return Route(method, path, shape=SHAPE, tag=TAG, access=access, **more)

        return [
            route("GET", PATH, Access.read, handler=self.list_page, summary="List streams", query=PAGE_QUERY),
            route(
                "POST",
                f"{PATH}/{{stream_id}}/status",
                Access.operate,
                handler=self.set_status,
                summary="Stop or start a stream",
                refusals=(404,),
            ),
        ]

    async def list_page(self, ask: Ask) -> Page[StreamRow]:
        """Streams of shared signals of all clients, in the order in which they were made."""
        window = window_of(ask)
        found = await self._database.read(streams.list_some, window.after, window.limit + 1)
        return page_of_items([_row(stream) for stream in found], window, lambda row: row.id)

    async def set_status(self, ask: Ask, body: StreamStatusBody) -> StreamRow:
        """The receiver is told by an event of its stream: the last one before it stops, the first one after."""
        changed = await self._database.write(
            _set_status, ask.actor, ask.path_text("stream_id"), body.status, body.reason
        )
        return _row(changed)


def _set_status(conn: Connection, actor: str, stream_id: str, status: streams.Status, reason: str | None) -> Stream:
    changed = streams.set_status_ourselves(conn, stream_id, status, reason)
    detail = {"stream_id": stream_id, "status": status, "reason": reason}
    record(conn, actor, "stream.status_changed", changed.client_id, detail)
    return changed


def _row(stream: Stream) -> StreamRow:
    return StreamRow(
        stream.id,
        stream.public_id,
        stream.client_id,
        stream.status,
        stream.status_reason,
        stream.events_delivered,
        stream.description,
        stream.push_url,
    )
