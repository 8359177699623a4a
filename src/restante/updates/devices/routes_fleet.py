"""Routes for the whole fleet: the outboxes and their rows, and the poll boost that makes the fleet poll faster."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OWN_SOURCE, STATUSES, OutboxRow, RowFilter
from restante.delivery.outbox.outbox_sources import OutboxSource, find_source
from restante.identity.grants import Area
from restante.updates.bulk.outbox_actions import OutboxFilter, outbox_actions
from restante.updates.polling import poll_boost
from restante.updates.polling.poll_boost import BOOST_SECONDS_MAX, INTERVAL_SECONDS, INTERVAL_SECONDS_MAX, PollBoost
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.bulk.bulk_requests import BulkHandler, BulkRequest, bulk_options
from restante.web.paging import (
    FORMAT,
    PAGE_QUERY,
    TIME,
    check_filters,
    counted,
    export,
    export_info,
    page_request_of,
    query_choice,
    query_moment,
)
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup

TAG = "fleet"
_STATUS = Query("status", "only rows with this status", {"type": "string", "enum": list(STATUSES)})
_DEVICE = Query("device_id", "only rows for this device", {"type": "integer", "minimum": 1, "maximum": INT64_MAX})

_SOURCE = Query("source", "the name of the outbox; default: the server's own", {"type": "string"})
_FILTERS = (
    _STATUS,
    _DEVICE,
    Query("event_kind", "only rows of this kind", {"type": "string"}),
    Query("since", "added at this time or later, or within this long", TIME),
    Query("until", "added before this time, or longer ago than this", TIME),
    _SOURCE,
)
_LIST_QUERY = (*PAGE_QUERY, *_FILTERS)
_EXPORT_QUERY = (*_FILTERS, FORMAT)


class PollBoostRequest(msgspec.Struct, forbid_unknown_fields=True):
    for_seconds: Annotated[int, Meta(ge=1, le=BOOST_SECONDS_MAX)]
    interval_seconds: Annotated[int, Meta(ge=1, le=INTERVAL_SECONDS_MAX)] = INTERVAL_SECONDS


class OutboxBulkRequest(BulkRequest, kw_only=True):
    action: Literal["retry"]
    filter: OutboxFilter = OutboxFilter()


class PollBoostView(msgspec.Struct):
    active: bool
    until: Timestamp | None
    interval_seconds: int | None


class RetryResult(msgspec.Struct):
    retried: int


class OutboxView(msgspec.Struct):
    """An outbox: the server's own, or one in an external database."""

    source: str
    reachable: bool
    pending: int | None = None
    failed: int | None = None
    oldest_pending_ms: int | None = None
    problem: str | None = None


class OutboxList(msgspec.Struct):
    items: list[OutboxView]


class FleetRoutes:
    def __init__(self, database: Database, sources: Mapping[str, OutboxSource]) -> None:
        self._database = database
        self._sources = sources
        self._bulk = BulkHandler(database, outbox_actions(), Access.fleet_operate, RESPONSE_FORMAT)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, area=Area.updates)
        return [
            group.get(
                "/apiv1/outbox",
                self.rows,
                Access.fleet_read,
                "List outbox rows, newest first",
                query=_LIST_QUERY,
                errors=(404,),
            ),
            group.get(
                "/apiv1/outbox/counts",
                self.row_counts,
                Access.fleet_read,
                "Count outbox rows by status",
                query=_FILTERS,
                errors=(404,),
            ),
            group.get(
                "/apiv1/outbox/export",
                self.export_rows,
                Access.fleet_read,
                "Export outbox rows as a file, newest first",
                query=_EXPORT_QUERY,
                responses=(export_info(OutboxRow),),
                errors=(404,),
            ),
            group.get("/apiv1/outboxes", self.outboxes, Access.fleet_read, "List the outboxes and their state"),
            group.get("/apiv1/outbox/{row_id}", self.row, Access.fleet_read, "Show an outbox row", query=(_SOURCE,)),
            group.post(
                "/apiv1/outbox/{row_id}/retry",
                self.retry,
                Access.fleet_operate,
                "Retry a FAILED row",
                query=(_SOURCE,),
                errors=(409,),
            ),
            group.post(
                "/apiv1/outbox/retry",
                self.retry_all,
                Access.fleet_operate,
                "Retry every FAILED row",
                query=(_SOURCE,),
                errors=(404,),
            ),
            group.post(
                "/apiv1/outbox/bulk",
                self.bulk,
                Access.fleet_operate,
                "Retry all FAILED rows that match",
                **bulk_options({"action": "retry", "filter": {"event_kind": "install.updated"}, "dry_run": True}),
            ),
            group.get("/apiv1/poll-boost", self.show_poll_boost, Access.fleet_read, "Show the current poll boost"),
            group.put(
                "/apiv1/poll-boost",
                self.start_poll_boost,
                Access.fleet_operate,
                "Start a poll boost: the fleet polls faster for a limited time",
                examples=({"for_seconds": 600},),
            ),
            group.delete(
                "/apiv1/poll-boost", self.stop_poll_boost, Access.fleet_operate, "Stop the poll boost", status=204
            ),
        ]

    async def outboxes(self, request: ApiRequest) -> OutboxList:
        """A caller who is limited to some users sees the server's own outbox, and counts of their devices only."""
        users = request.allowed.as_json()
        return OutboxList([await self._outbox_view(source, users) for source in self._open_sources(request).values()])

    async def rows(self, request: ApiRequest) -> Page[OutboxRow]:
        """A page may have fewer items than `limit`, or none, although there is a next one: it examines a bounded number
        of rows."""
        check_filters(request, _LIST_QUERY)
        source, filters = self._source(request), _filter_of(request)
        return await source.database.read(outbox.list_page, filters, page_request_of(request), source.name)

    async def row_counts(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined rows; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        source, filters = self._source(request), _filter_of(request)
        return await counted(request, source.database, lambda: outbox.counting(filters))

    async def export_rows(self, request: ApiRequest) -> ApiResponse:
        """All rows that match, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _EXPORT_QUERY)
        source, filters = self._source(request), _filter_of(request)
        return await export(
            request,
            "outbox",
            OutboxRow,
            lambda page: source.database.read(outbox.list_page, filters, page, source.name),
        )

    async def row(self, request: ApiRequest) -> OutboxRow:
        source = self._source(request)
        users = request.allowed.as_json()
        row_id = request.path_id("row_id")
        row = await source.database.read(outbox.get_row, row_id, source.name, users)
        if row is None:
            raise NotFound(f"there is no outbox row {row_id}")
        return row

    async def retry(self, request: ApiRequest) -> RetryResult:
        row = await self.row(request)
        if not await self._retry(self._source(request), [row.id]):
            raise Conflict(f"the row is {row.status}: only a FAILED one can be retried")
        return RetryResult(1)

    async def retry_all(self, request: ApiRequest) -> RetryResult:
        """Retry every FAILED row; for a caller who is limited to some users, those for their devices."""
        return RetryResult(await self._retry(self._source(request), None, request.allowed.as_json()))

    async def bulk(self, request: ApiRequest, body: OutboxBulkRequest) -> ApiResponse:
        """Rows of the server's own outbox. With `dry_run`, answers how many match and shows some."""
        return await self._bulk.handle(request, body.action, body.filter, body)

    def _source(self, request: ApiRequest) -> OutboxSource:
        name = request.query_text("source")
        return find_source(self._open_sources(request), OWN_SOURCE if name is None else name)

    def _open_sources(self, request: ApiRequest) -> Mapping[str, OutboxSource]:
        """External databases do not know users, so only who may see every user's rows sees theirs."""
        return self._sources if request.allowed.are_all else {OWN_SOURCE: self._sources[OWN_SOURCE]}

    async def _retry(self, source: OutboxSource, row_ids: list[int] | None, users: str | None = None) -> int:
        reset = await source.database.write(outbox.retry, row_ids, users)
        source.wake()
        return reset

    async def _outbox_view(self, source: OutboxSource, users: str | None) -> OutboxView:
        try:
            counts = await source.database.read(outbox.counts, users)
        except DatabaseError as error:
            return OutboxView(source.name, False, problem=str(error))
        return OutboxView(source.name, True, counts["pending"], counts["failed"], counts["oldest_pending_ms"])

    async def show_poll_boost(self, request: ApiRequest) -> PollBoostView:
        request.require_all("a poll boost concerns all devices")
        return _view(await self._database.read(poll_boost.current))

    async def start_poll_boost(self, request: ApiRequest, body: PollBoostRequest) -> PollBoostView:
        request.require_all("a poll boost concerns all devices")
        return _view(await self._database.write(poll_boost.start, body.for_seconds, body.interval_seconds))

    async def stop_poll_boost(self, request: ApiRequest) -> None:
        request.require_all("a poll boost concerns all devices")
        await self._database.write(poll_boost.stop)


def _filter_of(request: ApiRequest) -> RowFilter:
    return RowFilter(
        status=query_choice(request, "status", STATUSES),
        device_id=request.query_int("device_id", 0, 1, INT64_MAX) or None,
        event_kind=request.query_text("event_kind"),
        since_ms=query_moment(request, "since"),
        until_ms=query_moment(request, "until"),
        users=request.allowed.as_json(),
    )


def _view(found: PollBoost | None) -> PollBoostView:
    if found is None:
        return PollBoostView(False, None, None)
    return PollBoostView(True, iso_precise(round(found.until * 1000)), found.interval_seconds)
