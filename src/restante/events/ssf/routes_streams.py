"""Receiver routes for the configuration of Shared Signals streams (the stream management API of the framework)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.outgoing_http import OutgoingClient
from restante.events.push.callback_validation import check_callback
from restante.events.push.pusher import AUTHORIZATION_PURPOSE
from restante.events.ssf import streams
from restante.events.ssf.options import SharedSignalsOptions
from restante.events.ssf.response_format import RESPONSE_FORMAT
from restante.events.ssf.streams import PushTarget, Stream, StreamRequest
from restante.identity.master_key import MasterKey
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Query, Route, RouteGroup, RouteOptions

TAG = "shared signals"
STREAMS_PATH = "/ssf/streams"
PUSH: Literal["urn:ietf:rfc:8935"] = "urn:ietf:rfc:8935"
POLL: Literal["urn:ietf:rfc:8936"] = "urn:ietf:rfc:8936"
TYPES_MAX = 200
_STREAM_ID = {"type": "string", "minLength": 1}
STREAM_QUERY = (Query("stream_id", "which stream", _STREAM_ID, required=True),)
_STREAM_FILTER = (Query("stream_id", "which stream; without it, all", _STREAM_ID),)
_EXAMPLE = {"delivery": {"method": POLL}, "events_requested": ["urn:example:events:account-closed"]}
_CHANGE_EXAMPLE = {"stream_id": "f67e39a0", "description": "for the mobile app"}

StreamId = Annotated[str, Meta(min_length=1, max_length=128)]
EventTypeList = Annotated[
    list[Annotated[str, Meta(max_length=2048, pattern=r"^[^\x00]*\Z")]], Meta(max_length=TYPES_MAX)
]
StreamDescription = Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00]*\Z")]
# Characters that an HTTP header value may contain.
AuthorizationHeader = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[!-~]([ -~]*[!-~])?\Z")]


class StreamDelivery(msgspec.Struct, omit_defaults=True):
    """For polling (`urn:ietf:rfc:8936`) the server sets the URL, for push (`urn:ietf:rfc:8935`) the receiver does."""

    method: Literal["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"]
    endpoint_url: str | None = None
    authorization_header: AuthorizationHeader | None = None


class NewStreamBody(msgspec.Struct):
    """The values a receiver may set on a new stream; unknown members are ignored."""

    delivery: StreamDelivery | UnsetType = UNSET
    events_requested: EventTypeList | UnsetType = UNSET
    description: StreamDescription | UnsetType = UNSET


class StreamBody(NewStreamBody, kw_only=True):
    """A change of an existing stream. Values that the server sets may be repeated unchanged."""

    stream_id: StreamId
    iss: str | UnsetType = UNSET
    aud: str | list[str] | UnsetType = UNSET
    events_supported: list[str] | UnsetType = UNSET
    events_delivered: list[str] | UnsetType = UNSET
    min_verification_interval: int | UnsetType = UNSET


class StreamView(msgspec.Struct, omit_defaults=True):
    stream_id: str
    iss: str
    aud: str
    delivery: StreamDelivery
    events_supported: list[str]
    events_delivered: list[str]
    min_verification_interval: int
    events_requested: list[str] | None = None
    description: str | None = None


class StreamRoutes:
    def __init__(
        self, database: Database, client: OutgoingClient, master_key: MasterKey, options: SharedSignalsOptions
    ) -> None:
        self._database = database
        self._client = client
        self._master_key = master_key
        self._options = options

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT, prefix=STREAMS_PATH)

        manage, read = Access.ssf_manage, Access.ssf_read
        created = RouteOptions(status=201, errors=(409,), body_optional=True, examples=(_EXAMPLE,))
        changed = RouteOptions(errors=(404,), examples=(_CHANGE_EXAMPLE,))
        return [
            group.post("", self.create, manage, "Create the stream", **created),
            group.get("", self.show, read, "Show the streams, or one", query=_STREAM_FILTER, errors=(404,)),
            group.patch("", self.update, manage, "Change some of the stream", **changed),
            group.put("", self.replace, manage, "Replace the configuration of the stream", **changed),
            group.delete(
                "", self.delete, manage, "Delete the stream", status=204, query=STREAM_QUERY, errors=(400, 404)
            ),
        ]

    async def create(self, request: ApiRequest, body: NewStreamBody) -> StreamView:
        """Create the client's one stream. Without `delivery` it is polled, at the URL in the response."""
        stream_request = StreamRequest(
            _or_none(body.events_requested), _or_none(body.description), await self._push_target(body, None)
        )
        rules = self._options.rules
        return self._view(await self._database.write(streams.create, rules, request.client.id, stream_request))

    async def show(self, request: ApiRequest) -> StreamView | list[StreamView]:
        """Return the stream with `stream_id`; without it, a list of the client's streams (at most one)."""
        stream_id = request.query_text("stream_id")
        if stream_id is None:
            found = await self._database.read(streams.list_all, request.client.id)
            return [self._view(stream) for stream in found]
        return self._view(await self._database.read(streams.get, request.client.id, stream_id))

    async def update(self, request: ApiRequest, body: StreamBody) -> StreamView:
        """Members that are not in the request keep their values."""
        before = await self._check_unchanged(request, body)
        push_target = UNSET if body.delivery is UNSET else await self._push_target(body, before)
        return await self._change(request, body, StreamRequest(body.events_requested, body.description, push_target))

    async def replace(self, request: ApiRequest, body: StreamBody) -> StreamView:
        """Members that are not in the request are reset."""
        before = await self._check_unchanged(request, body)
        push_target = await self._push_target(body, before)
        stream_request = StreamRequest(_or_none(body.events_requested), _or_none(body.description), push_target)
        return await self._change(request, body, stream_request)

    async def delete(self, request: ApiRequest) -> ApiResponse:
        """Delete the stream and its undelivered events."""
        await self._database.write(streams.delete, request.client.id, stream_id_of(request))
        return ApiResponse(204)

    async def _change(self, request: ApiRequest, body: StreamBody, stream_request: StreamRequest) -> StreamView:
        def change(conn: Connection) -> Stream:
            return streams.change(conn, self._options.rules, request.client.id, body.stream_id, stream_request)

        return self._view(await self._database.write(change))

    async def _check_unchanged(self, request: ApiRequest, body: StreamBody) -> Stream:
        """Return the stream as it is; refuse changes of values that the server sets."""
        stream = await self._database.read(streams.get, request.client.id, body.stream_id)
        view = self._view(stream)
        for name in ("iss", "aud", "events_supported", "events_delivered", "min_verification_interval"):
            requested, current = getattr(body, name), getattr(view, name)
            if requested is not UNSET and requested != current and requested != [current]:
                raise BadInput(name, "its current value, or no value")
        return stream

    async def _push_target(self, body: NewStreamBody, before: Stream | None) -> PushTarget | None:
        """Return the push target, or None for a polled stream."""
        if body.delivery is UNSET or body.delivery.method == POLL:
            self._check_poll_delivery(body.delivery, before)
            return None
        if not body.delivery.endpoint_url:
            raise BadInput("delivery.endpoint_url", "the https URL of the receiver")
        await check_callback(self._client, body.delivery.endpoint_url, "delivery.endpoint_url")
        header = body.delivery.authorization_header
        sealed = None if header is None else self._master_key.seal(header.encode(), AUTHORIZATION_PURPOSE)
        return PushTarget(body.delivery.endpoint_url, sealed)

    def _check_poll_delivery(self, delivery: StreamDelivery | UnsetType, before: Stream | None) -> None:
        if delivery is UNSET:
            return
        own = None if before is None else self._options.poll_url(before.public_id)
        # Receivers in the field send an empty text for "no URL".
        if delivery.endpoint_url not in (None, "", own):
            raise BadInput("delivery.endpoint_url", "no value: the server sets the poll URL")
        if delivery.authorization_header is not None:
            raise BadInput("delivery.authorization_header", "no value: it is for push only")

    def _view(self, stream: Stream) -> StreamView:
        options = self._options
        polled = StreamDelivery(POLL, options.poll_url(stream.public_id))
        return StreamView(
            stream.public_id,
            options.issuer,
            stream.client_id,
            # The authorization header of a push target is never returned.
            polled if stream.push_url is None else StreamDelivery(PUSH, stream.push_url),
            list(options.rules.events_supported),
            stream.events_delivered,
            options.rules.verification_seconds,
            stream.events_requested,
            stream.description,
        )


def stream_id_of(request: ApiRequest) -> str:
    stream_id = request.query_text("stream_id")
    if stream_id is None:
        raise BadInput("stream_id", "the id of a stream, in the query")
    return stream_id


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value
