"""Client routes for event subscriptions: the event types a client receives, and its callback URL.

Requests with a body may carry a message signature, and responses with a body do (`signing/message_signatures`).
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.events.api_versions import ApiBase
from restante.events.errors import UnsupportedEventType
from restante.events.outgoing_http import OutgoingClient
from restante.events.publishing.token_claims import URI_CHARACTERS_MAX, URI_PATTERN, is_event_type
from restante.events.push import subscriptions
from restante.events.push.callback_validation import check_callback
from restante.events.push.subscriptions import Subscription, SubscriptionRequest
from restante.events.response_format import BY_VERSION, require_acceptable
from restante.events.signing.message_signatures import HEADER, DetachedSignature, MessageSignatures
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

TAG = "event subscriptions"
PATH = "/event-subscriptions"
EVENT_TYPES_MAX = 100

Version = Annotated[
    str, Meta(pattern=r"^[!-~]{1,10}\Z", description="The version of the resources in events, such as `4.0`.")
]
# The schema is for the document: `_check_types` refuses with the error code of event types.
EventType = Annotated[str, Meta(extra_json_schema={"maxLength": URI_CHARACTERS_MAX, "pattern": URI_PATTERN})]
EventTypes = Annotated[
    list[EventType],
    Meta(min_length=1, max_length=EVENT_TYPES_MAX, extra_json_schema={"uniqueItems": True}),
]


class SubscriptionData(msgspec.Struct, rename="pascal"):
    """Without `CallbackUrl`, polling only. Without `EventTypes`, all. Other members are ignored."""

    version: Version
    callback_url: str | UnsetType = UNSET
    event_types: EventTypes | UnsetType = UNSET


class SubscriptionBody(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """`OBEventSubscription1`."""

    data: SubscriptionData


class SubscriptionChangeData(SubscriptionData, rename="pascal"):
    event_subscription_id: str | UnsetType = UNSET


class SubscriptionChangeBody(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """`OBEventSubscriptionResponse1`: an earlier response with the changes."""

    data: SubscriptionChangeData
    links: dict[str, Any] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET


class SubscriptionView(msgspec.Struct, rename="pascal"):
    event_subscription_id: str
    version: str
    callback_url: str | UnsetType = UNSET
    event_types: list[str] | UnsetType = UNSET


class LinksView(msgspec.Struct, rename="pascal"):
    self: str


class MetaView(msgspec.Struct):
    """Empty; the profile requires it."""


class SubscriptionResponse(msgspec.Struct, rename="pascal"):
    """`OBEventSubscriptionResponse1`."""

    data: SubscriptionView
    links: LinksView
    meta: MetaView


class SubscriptionList(msgspec.Struct, rename="pascal"):
    event_subscription: list[SubscriptionView]


class SubscriptionsResponse(msgspec.Struct, rename="pascal"):
    """`OBEventSubscriptionsResponse1`."""

    data: SubscriptionList
    links: LinksView
    meta: MetaView


class SubscriptionRoutes:
    """The routes under one base."""

    def __init__(
        self,
        database: Database,
        client: OutgoingClient,
        base: ApiBase,
        base_url: str,
        signatures: MessageSignatures,
    ) -> None:
        self._database = database
        self._client = client
        self._base = base
        self._base_url = base_url
        self._signatures = signatures

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, BY_VERSION[self._base.version], prefix=self._base.path + PATH, errors=(400, 406))
        one = "/{event_subscription_id}"
        examples = ({"Data": {"Version": "4.0", "EventTypes": ["urn:uk:org:openbanking:events:resource-update"]}},)
        return [
            group.post(
                "", self.create, Access.subscriber, "Subscribe to events", status=201, errors=(409,), examples=examples
            ),
            group.get("", self.show, Access.subscriber, "Show the client's subscription"),
            group.put(
                one, self.replace, Access.subscriber, "Change the subscription", errors=(404,), examples=examples
            ),
            group.delete(one, self.delete, Access.subscriber, "End the subscription", status=204, errors=(404,)),
        ]

    async def create(self, request: ApiRequest, body: SubscriptionBody) -> SubscriptionResponse | ApiResponse:
        """Create the client's one subscription. It applies to events that are published later."""
        require_acceptable(request.http)
        signed = await self._verify(request)
        subscription_request = await self._check(body.data)
        created = await self._database.write(subscriptions.create, request.client.id, subscription_request)
        return await self._sign(self._response(request, created), 201, signed)

    async def show(self, request: ApiRequest) -> SubscriptionsResponse | ApiResponse:
        """Return a list with the client's subscription, or an empty list."""
        require_acceptable(request.http)
        found = await self._database.read(subscriptions.find, request.client.id)
        views = [] if found is None else [_view(found)]
        shown = SubscriptionsResponse(SubscriptionList(views), LinksView(self._collection(request)), MetaView())
        return await self._sign(shown, 200, None)

    async def replace(self, request: ApiRequest, body: SubscriptionChangeBody) -> SubscriptionResponse | ApiResponse:
        """Replace the subscription. Events that wait for push go to a new callback URL at once."""
        require_acceptable(request.http)
        signed = await self._verify(request)
        public_id = request.path_text("event_subscription_id")
        if body.data.event_subscription_id not in (UNSET, public_id):
            raise BadInput("Data.EventSubscriptionId", "the id in the path, or none")
        subscription_request = await self._check(body.data)
        changed = await self._database.write(subscriptions.replace, request.client.id, public_id, subscription_request)
        return await self._sign(self._response(request, changed), 200, signed)

    async def delete(self, request: ApiRequest) -> ApiResponse:
        """Delete the subscription. The client then receives events of all types, by polling."""
        require_acceptable(request.http)
        public_id = request.path_text("event_subscription_id")
        await self._database.write(subscriptions.delete, request.client.id, public_id)
        return ApiResponse(204)

    async def _sign(
        self,
        view: SubscriptionResponse | SubscriptionsResponse,
        status: int,
        signed: DetachedSignature | None,
    ) -> ApiResponse:
        response = BY_VERSION[self._base.version].success(view, status)
        signature = await self._signatures.sign(response.body, self._base.version, signed)
        return response.with_headers((HEADER.encode(), signature))

    async def _verify(self, request: ApiRequest) -> DetachedSignature | None:
        values = request.http.headers.getlist(HEADER)
        return await self._signatures.verify(request.client.client_id, values, request.raw_body)

    async def _check(self, data: SubscriptionData) -> SubscriptionRequest:
        types = None if data.event_types is UNSET else _check_types(data.event_types)
        callback_url = None if data.callback_url is UNSET else data.callback_url
        if callback_url is not None:
            await check_callback(self._client, callback_url, "Data.CallbackUrl")
        return SubscriptionRequest(callback_url, data.version, types)

    def _response(self, request: ApiRequest, subscription: Subscription) -> SubscriptionResponse:
        link = f"{self._collection(request)}/{subscription.public_id}"
        return SubscriptionResponse(_view(subscription), LinksView(link), MetaView())

    def _collection(self, request: ApiRequest) -> str:
        path = request.http.url.path
        return self._base_url + path[: path.index(PATH) + len(PATH)]


def _check_types(types: list[str]) -> tuple[str, ...]:
    for index, name in enumerate(types):
        if not is_event_type(name):
            raise UnsupportedEventType(f"Data.EventTypes[{index}]", "an event type that is a URI, urn:… or https://…")
    if len(set(types)) < len(types):
        raise BadInput("Data.EventTypes", "each type once")
    return tuple(types)


def _view(subscription: Subscription) -> SubscriptionView:
    return SubscriptionView(
        subscription.public_id,
        subscription.version,
        UNSET if subscription.callback_url is None else subscription.callback_url,
        UNSET if subscription.event_types is None else list(subscription.event_types),
    )
