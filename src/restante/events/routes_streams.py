"""Streams of shared signals, for their receivers: the configuration, as the framework's management API has it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events import streams
from restante.events.callbacks import check_callback
from restante.events.push import AUTHORIZATION_PURPOSE
from restante.events.receiver_client import ReceiverClient
from restante.events.ssf_options import SignalsOptions
from restante.events.ssf_wire import SHAPE
from restante.events.streams import PushTo, Stream, StreamWish
from restante.identity.master_key import MasterKey
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.routes import Access, Query, Route

TAG = "shared signals"
STREAMS_PATH = "/ssf/streams"
PUSH: Literal["urn:ietf:rfc:8935"] = "urn:ietf:rfc:8935"
POLL: Literal["urn:ietf:rfc:8936"] = "urn:ietf:rfc:8936"
TYPES_MAX = 200
STREAM_QUERY = (Query("stream_id", "which stream", {"type": "string"}),)

Id = Annotated[str, Meta(min_length=1, max_length=128)]
Types = Annotated[list[Annotated[str, Meta(max_length=2048, pattern=r"^[^\x00]*\Z")]], Meta(max_length=TYPES_MAX)]
Description = Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00]*\Z")]
# As a header can carry it.
Authorization = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[!-~]([ -~]*[!-~])?\Z")]


class Delivery(msgspec.Struct, omit_defaults=True):
    """Poll (`urn:ietf:rfc:8936`): the address is ours to give. Push (`urn:ietf:rfc:8935`): it is the receiver's."""

    method: Literal["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"]
    endpoint_url: str | None = None
    authorization_header: Authorization | None = None


class NewStreamBody(msgspec.Struct):
    """What a receiver may say of a new stream. What it does not understand itself, nobody asks about."""

    delivery: Delivery | UnsetType = UNSET
    events_requested: Types | UnsetType = UNSET
    description: Description | UnsetType = UNSET


class StreamBody(NewStreamBody, kw_only=True):
    """What is said of a stream that is there. What is ours to say may be repeated as it is."""

    stream_id: Id
    iss: str | UnsetType = UNSET
    aud: str | list[str] | UnsetType = UNSET
    events_supported: list[str] | UnsetType = UNSET
    events_delivered: list[str] | UnsetType = UNSET
    min_verification_interval: int | UnsetType = UNSET


class StreamView(msgspec.Struct, omit_defaults=True):
    stream_id: str
    iss: str
    aud: str
    delivery: Delivery
    events_supported: list[str]
    events_delivered: list[str]
    min_verification_interval: int
    events_requested: list[str] | None = None
    description: str | None = None


class StreamRoutes:
    def __init__(
        self, database: Database, client: ReceiverClient, master_key: MasterKey, options: SignalsOptions
    ) -> None:
        self._database = database
        self._client = client
        self._master_key = master_key
        self._options = options

    def routes(self) -> list[Route]:
        def route(method: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, STREAMS_PATH, handler, access, summary, SHAPE, TAG, **more)

        manage, read = Access.signals_manage, Access.signals_read
        return [
            route("POST", self.create, manage, "Create the stream", status=201, refusals=(409,), body_optional=True),
            route("GET", self.show, read, "Show the streams, or one", query=STREAM_QUERY, refusals=(404,)),
            route("PATCH", self.update, manage, "Change some of the stream", refusals=(404,)),
            route("PUT", self.replace, manage, "Replace what the receiver said of the stream", refusals=(404,)),
            route(
                "DELETE", self.delete, manage, "Delete the stream", status=204, query=STREAM_QUERY, refusals=(400, 404)
            ),
        ]

    async def create(self, ask: Ask, body: NewStreamBody) -> StreamView:
        """One for each client. Without `delivery` it is polled, at the address that is answered."""
        wish = StreamWish(_or_none(body.events_requested), _or_none(body.description), await self._push_to(body, None))
        rules = self._options.rules
        return self._view(await self._database.write(streams.create, rules, ask.client.id, wish))

    async def show(self, ask: Ask) -> StreamView | list[StreamView]:
        """With `stream_id` that stream, without it a list of one or none."""
        stream_id = ask.query_text("stream_id")
        if stream_id is None:
            found = await self._database.read(streams.list_all, ask.client.id)
            return [self._view(stream) for stream in found]
        return self._view(await self._database.read(streams.get, ask.client.id, stream_id))

    async def update(self, ask: Ask, body: StreamBody) -> StreamView:
        """What is not named stays as it is."""
        before = await self._checked(ask, body)
        push_to = UNSET if body.delivery is UNSET else await self._push_to(body, before)
        return await self._change(ask, body, StreamWish(body.events_requested, body.description, push_to))

    async def replace(self, ask: Ask, body: StreamBody) -> StreamView:
        """What is not named is taken back."""
        before = await self._checked(ask, body)
        push_to = await self._push_to(body, before)
        wish = StreamWish(_or_none(body.events_requested), _or_none(body.description), push_to)
        return await self._change(ask, body, wish)

    async def delete(self, ask: Ask) -> Answer:
        """With whatever was left in it."""
        await self._database.write(streams.delete, ask.client.id, named_stream(ask))
        return Answer(204)

    async def _change(self, ask: Ask, body: StreamBody, wish: StreamWish) -> StreamView:
        def change(conn: Connection) -> Stream:
            return streams.change(conn, self._options.rules, ask.client.id, body.stream_id, wish)

        return self._view(await self._database.write(change))

    async def _checked(self, ask: Ask, body: StreamBody) -> Stream:
        """The stream as it is. What is ours to say must be repeated as we said it."""
        stream = await self._database.read(streams.get, ask.client.id, body.stream_id)
        view = self._view(stream)
        for name in ("iss", "aud", "events_supported", "events_delivered", "min_verification_interval"):
            said, ours = getattr(body, name), getattr(view, name)
            if said is not UNSET and said != ours and said != [ours]:
                raise BadInput(name, "the value it has, or none")
        return stream

    async def _push_to(self, body: NewStreamBody, before: Stream | None) -> PushTo | None:
        """Where to push, if that is wished for; None: it is polled."""
        if body.delivery is UNSET or body.delivery.method == POLL:
            self._check_polled(body.delivery, before)
            return None
        if body.delivery.endpoint_url is None:
            raise BadInput("delivery.endpoint_url", "an https address, where events are to be pushed")
        await check_callback(self._client, body.delivery.endpoint_url, "delivery.endpoint_url")
        header = body.delivery.authorization_header
        sealed = None if header is None else self._master_key.seal(header.encode(), AUTHORIZATION_PURPOSE)
        return PushTo(body.delivery.endpoint_url, sealed)

    def _check_polled(self, delivery: Delivery | UnsetType, before: Stream | None) -> None:
        if delivery is UNSET:
            return
        own = None if before is None else self._options.poll_url(before.public_id)
        if delivery.endpoint_url not in (None, own):
            raise BadInput("delivery.endpoint_url", "none, where events are polled it is given by us")
        if delivery.authorization_header is not None:
            raise BadInput("delivery.authorization_header", "none, where events are polled nobody is called")

    def _view(self, stream: Stream) -> StreamView:
        options = self._options
        polled = Delivery(POLL, options.poll_url(stream.public_id))
        return StreamView(
            stream.public_id,
            options.issuer,
            stream.client_id,
            # What the receiver wants to be shown as Authorization is never shown to anybody else.
            polled if stream.push_url is None else Delivery(PUSH, stream.push_url),
            list(options.rules.events_supported),
            stream.events_delivered,
            options.rules.verification_seconds,
            stream.events_requested,
            stream.description,
        )


def named_stream(ask: Ask) -> str:
    stream_id = ask.query_text("stream_id")
    if stream_id is None:
        raise BadInput("stream_id", "the id of a stream, in the query")
    return stream_id


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value
