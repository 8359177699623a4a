"""Operator routes for Shared Signals streams: list streams, and change the status of one."""

from typing import Literal

import msgspec

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, page_of_items
from restante.events.publishing.event_audit import record
from restante.events.response_format import RESPONSE_FORMAT
from restante.events.ssf import streams
from restante.events.ssf.routes_control import Reason
from restante.events.ssf.streams import Stream
from restante.identity.grants import AllowedIds, Area
from restante.web.paging import PAGE_QUERY, page_request_of
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

TAG = "event clients"
PATH = "/admin/streams"


class StreamStatusBody(msgspec.Struct, forbid_unknown_fields=True):
    """`reason` is sent to the receiver."""

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
        group = RouteGroup(TAG, RESPONSE_FORMAT, area=Area.events)

        return [
            group.get(PATH, self.list_page, Access.read, "List streams", query=PAGE_QUERY),
            group.post(
                f"{PATH}/{{stream_id}}/status",
                self.set_status,
                Access.operate,
                "Change the status of a stream",
                errors=(404,),
                examples=({"status": "paused", "reason": "maintenance"},),
            ),
        ]

    async def list_page(self, request: ApiRequest) -> Page[StreamRow]:
        """List the Shared Signals streams of all clients, in the order of their creation."""
        window = page_request_of(request)
        found = await self._database.read(streams.list_after, window.after, window.limit + 1, request.allowed)
        return page_of_items([_row(stream) for stream in found], window, lambda row: row.id)

    async def set_status(self, request: ApiRequest, body: StreamStatusBody) -> StreamRow:
        """Change the status. The receiver gets an event about it: the last before a stop, the first after a start."""
        changed = await self._database.write(
            _set_status, request.actor, request.path_text("stream_id"), body, request.allowed
        )
        return _row(changed)


def _set_status(conn: Connection, actor: str, stream_id: str, body: StreamStatusBody, allowed: AllowedIds) -> Stream:
    changed = streams.set_status_by_operator(conn, stream_id, body.status, body.reason, allowed)
    detail = {"stream_id": stream_id, "status": body.status, "reason": body.reason}
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
