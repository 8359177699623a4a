"""Operator routes for events: publish, list and show them, read client status, resolve errored events, bulk actions."""

from typing import Literal, get_args

import msgspec

from restante.database.database import Database
from restante.database.lists.filtered_list import StateCounts
from restante.database.paging import Page
from restante.events.bulk.event_actions import EventBulkFilter, event_job_actions
from restante.events.publishing import client_status, errored_events, listing
from restante.events.publishing.client_status import ClientStatus, ClientStatusDetail
from restante.events.publishing.errored_events import Resolution
from restante.events.publishing.listing import STATUSES, EventDetail, EventFilter, EventView
from restante.events.publishing.publish_requests import PUBLISHING, PublishBody, PublishRequest, PublishResponse
from restante.events.publishing.publishing import Publisher
from restante.events.push.receivers import Profile
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity.callers import ApiKeyCaller
from restante.identity.grants import Area
from restante.web import idempotency
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
from restante.web.routes import Access, Query, ResponseInfo, Route, RouteGroup, RouteOptions

TAG = "events"
PATH = "/admin/events"
PROFILES: tuple[str, ...] = get_args(Profile)

_FILTERS = (
    Query("client_id", "only events for this client", {"type": "string"}),
    Query("status", "only events in this state", {"type": "string", "enum": list(STATUSES)}),
    Query("txn", "only events of this transaction", {"type": "string"}),
    Query("profile", "only events of this profile", {"type": "string", "enum": list(PROFILES)}),
    Query("err", "only events that the client reported with this error", {"type": "string"}),
    Query("since", "published at this time or later, or within this long", TIME),
    Query("until", "published before this time, or longer ago than this", TIME),
)
_LIST_QUERY = (*PAGE_QUERY, *_FILTERS)
_EXPORT_QUERY = (*_FILTERS, FORMAT)
_EXAMPLE = {
    "client_id": "my-client",
    "sub": "https://bank.example/accounts/1",
    "events": {"urn:example:events:account-closed": {"reason": "moved"}},
    "txn": "t-1",
}

_RELEASE = {"action": "release", "filter": {"client_id": "my-client", "err": "jws"}, "dry_run": True}
_REDELIVER = {"action": "redeliver", "filter": {"client_id": "my-client", "since": "2026-01-18T10:00:00Z"}}


class EventsBulkRequest(BulkRequest, kw_only=True):
    action: Literal["release", "drop", "redeliver"]
    filter: EventBulkFilter = EventBulkFilter()


class ResolvedCount(msgspec.Struct, frozen=True):
    """The number of events that were released or dropped."""

    count: int


class AdminEventRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._bulk = BulkHandler(database, event_job_actions(), Access.operate, RESPONSE_FORMAT)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=PATH, area=Area.events)

        one, client = "/{jti}", "/clients/{client_id}"
        errored = RouteOptions(errors=(404, 409))
        published = RouteOptions(
            status=201,
            errors=(404, 422),
            headers=(idempotency.KEY_HEADER,),
            examples=(_EXAMPLE,),
            responses=(ResponseInfo(201, headers=(idempotency.REPLAYED_HEADER,)),),
        )
        return [
            group.post("", self.publish, Access.operate, "Publish an event", **published),
            group.post(
                "/bulk", self.bulk, Access.operate, "Act on all events that match", **bulk_options(_RELEASE, _REDELIVER)
            ),
            group.get("", self.list_page, Access.read, "List events", query=_LIST_QUERY, errors=(404,)),
            group.get("/counts", self.counts, Access.read, "Count events by status", query=_FILTERS, errors=(404,)),
            group.get(
                "/export",
                self.export,
                Access.read,
                "Export events as a file, newest first",
                query=_EXPORT_QUERY,
                responses=(export_info(EventView),),
                errors=(404,),
            ),
            group.get(one, self.show, Access.read, "Show an event, its token claims and its deliveries", errors=(404,)),
            group.post(one + "/release", self.release, Access.operate, "Release an errored event", **errored),
            group.post(one + "/drop", self.drop, Access.operate, "Drop an errored event", **errored),
            group.get("/clients", self.statuses, Access.read, "List the status of each client", query=PAGE_QUERY),
            group.get(
                client, self.status, Access.read, "Show the status of a client, with error reasons", errors=(404,)
            ),
            group.post(
                client + "/release",
                self.release_all,
                Access.operate,
                "Release all errored events of a client",
                errors=(404,),
            ),
            group.post(
                client + "/drop", self.drop_all, Access.operate, "Drop all errored events of a client", errors=(404,)
            ),
        ]

    async def publish(self, request: ApiRequest, body: PublishBody) -> PublishResponse | ApiResponse:
        """Publish an event for one client (`client_id`), or for all subscribers of its types (`all_subscribers`).

        A client that did not subscribe to any of its types receives nothing; `jtis` is empty then. With an
        `Idempotency-Key` header, a repetition gets the first response and publishes nothing.
        """
        if body.client_id is None:
            request.require_all("this publishes to the subscribers among all clients")
        else:
            listing.check_client(request.allowed, body.client_id)
        key = idempotency.key_of(request)
        key_id = request.caller.key_id if isinstance(request.caller, ApiKeyCaller) else None
        publish_request = PublishRequest(body, Publisher(request.actor, key_id), key)
        result = await self._database.run_batched(PUBLISHING, publish_request)
        return idempotency.created_response(result)

    async def bulk(self, request: ApiRequest, body: EventsBulkRequest) -> ApiResponse:
        """Release or drop errored events, or deliver acknowledged ones again."""
        return await self._bulk.handle(request, body.action, body.filter, body)

    async def list_page(self, request: ApiRequest) -> Page[EventView]:
        """List events, newest first. A page may have fewer items than `limit`, or none, although there is a next one:
        it examines a bounded number of events."""
        check_filters(request, _LIST_QUERY)
        return await self._database.read(
            listing.list_page, _filter_of(request), page_request_of(request), request.allowed
        )

    async def counts(self, request: ApiRequest) -> StateCounts:
        """Exact up to 10,000,000 examined events; beyond, `is_exact` is false. Counts of
        long lists are kept for a while: `counted_at` is their time."""
        check_filters(request, _FILTERS)
        filters = _filter_of(request)
        return await counted(request, self._database, lambda: listing.counting(filters, request.allowed))

    async def export(self, request: ApiRequest) -> ApiResponse:
        """All events that match, without their tokens, as CSV with a header row or as a JSON array, sent in parts."""
        check_filters(request, _EXPORT_QUERY)
        filters = _filter_of(request)
        return await export(
            request,
            "events",
            EventView,
            lambda page: self._database.read(listing.list_page, filters, page, request.allowed),
        )

    async def show(self, request: ApiRequest) -> EventDetail:
        return await self._database.read(listing.show, request.path_text("jti"), request.allowed)

    async def release(self, request: ApiRequest) -> EventDetail:
        """Deliver the event again, with the same bytes and before later events."""
        return await self._resolve(request, Resolution.release)

    async def drop(self, request: ApiRequest) -> EventDetail:
        """Never deliver the event again."""
        return await self._resolve(request, Resolution.drop)

    async def statuses(self, request: ApiRequest) -> Page[ClientStatus]:
        """Count for each client the events that wait, that are delivered but not acknowledged, and that are errored."""
        return await self._database.read(client_status.list_page, page_request_of(request), request.allowed)

    async def status(self, request: ApiRequest) -> ClientStatusDetail:
        return await self._database.read(client_status.show, _client_id_of(request))

    async def release_all(self, request: ApiRequest) -> ResolvedCount:
        """Deliver all errored events of the client again."""
        return await self._resolve_all(request, Resolution.release)

    async def drop_all(self, request: ApiRequest) -> ResolvedCount:
        """Never deliver any errored event of the client again."""
        return await self._resolve_all(request, Resolution.drop)

    async def _resolve(self, request: ApiRequest, resolution: Resolution) -> EventDetail:
        jti = request.path_text("jti")
        await self._database.write(errored_events.resolve, resolution, jti, request.actor, request.allowed)
        return await self._database.read(listing.show, jti)

    async def _resolve_all(self, request: ApiRequest, resolution: Resolution) -> ResolvedCount:
        count = await self._database.write(
            errored_events.resolve_all, resolution, _client_id_of(request), request.actor
        )
        return ResolvedCount(count)


def _client_id_of(request: ApiRequest) -> str:
    """The client of the path; NotFound if it is outside the caller's grants."""
    client_id = request.path_text("client_id")
    listing.check_client(request.allowed, client_id)
    return client_id


def _filter_of(request: ApiRequest) -> EventFilter:
    return EventFilter(
        client_id=request.query_text("client_id"),
        status=query_choice(request, "status", STATUSES),
        txn=request.query_text("txn"),
        profile=query_choice(request, "profile", PROFILES),
        err=request.query_text("err"),
        since_ms=query_moment(request, "since"),
        until_ms=query_moment(request, "until"),
    )
