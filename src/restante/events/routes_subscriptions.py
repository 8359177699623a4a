"""Event subscriptions, for clients: which events they are sent, and where they are notified."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.events import subscriptions
from restante.events.callbacks import check_callback
from restante.events.claims import is_event_type
from restante.events.receiver_client import ReceiverClient
from restante.events.subscriptions import Subscription, Wish
from restante.events.wire import SHAPE, UnsupportedEventType, require_acceptable
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.origin import base_url_of
from restante.web.routes import Access, Route

TAG = "event subscriptions"
PATH = "/event-subscriptions"
EVENT_TYPES_MAX = 100

Version = Annotated[str, Meta(pattern=r"^[!-~]{1,10}\Z", description="Of the resources the events are about, `4.0`.")]
EventTypes = Annotated[list[str], Meta(min_length=1, max_length=EVENT_TYPES_MAX)]


class SubscriptionData(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """Without `CallbackUrl`, polling only. Without `EventTypes`, all."""

    version: Version
    callback_url: str | UnsetType = UNSET
    event_types: EventTypes | UnsetType = UNSET


class SubscriptionBody(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """`OBEventSubscription1`."""

    data: SubscriptionData


class ChangedData(SubscriptionData, forbid_unknown_fields=True, rename="pascal"):
    event_subscription_id: str | UnsetType = UNSET


class ChangedBody(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """`OBEventSubscriptionResponse1`, as it was answered, with what is to be different."""

    data: ChangedData
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
    """Nothing yet; the profile wants it there."""


class SubscriptionAnswer(msgspec.Struct, rename="pascal"):
    """`OBEventSubscriptionResponse1`."""

    data: SubscriptionView
    links: LinksView
    meta: MetaView


class SubscriptionList(msgspec.Struct, rename="pascal"):
    event_subscription: list[SubscriptionView]


class SubscriptionsAnswer(msgspec.Struct, rename="pascal"):
    """`OBEventSubscriptionsResponse1`."""

    data: SubscriptionList
    links: LinksView
    meta: MetaView


class SubscriptionRoutes:
    def __init__(self, database: Database, client: ReceiverClient, bases: list[str], public_url: str | None) -> None:
        self._database = database
        self._client = client
        self._bases = bases
        self._public_url = public_url

    def routes(self) -> list[Route]:
        return [route for base in self._bases for route in self._routes(base + PATH)]

    def _routes(self, path: str) -> list[Route]:
        def route(method: str, at: str, handler: Any, summary: str, **more: Any) -> Route:
            refusals = (400, 406, *more.pop("refusals", ()))
            return Route(method, at, handler, Access.client, summary, SHAPE, TAG, refusals=refusals, **more)

        one = f"{path}/{{event_subscription_id}}"
        return [
            route("POST", path, self.create, "Subscribe to events", status=201, refusals=(409,)),
            route("GET", path, self.show, "Show the client's subscription"),
            route("PUT", one, self.replace, "Change the subscription", refusals=(404,)),
            route("DELETE", one, self.delete, "End the subscription", status=204, refusals=(404,)),
        ]

    async def create(self, ask: Ask, body: SubscriptionBody) -> SubscriptionAnswer:
        """One for each client. What it says counts for events that are published from then on."""
        require_acceptable(ask.request)
        wish = await self._wish(body.data)
        return self._answer(ask, await self._database.write(subscriptions.create, ask.client.id, wish))

    async def show(self, ask: Ask) -> SubscriptionsAnswer:
        """A list of one, or of none."""
        require_acceptable(ask.request)
        found = await self._database.read(subscriptions.find, ask.client.id)
        views = [] if found is None else [_view(found)]
        return SubscriptionsAnswer(SubscriptionList(views), LinksView(self._collection(ask)), MetaView())

    async def replace(self, ask: Ask, body: ChangedBody) -> SubscriptionAnswer:
        """Events that wait to be pushed go to the new address at once."""
        require_acceptable(ask.request)
        public_id = ask.path_text("event_subscription_id")
        if body.data.event_subscription_id not in (UNSET, public_id):
            raise BadInput("Data.EventSubscriptionId", "the id in the path, or none")
        wish = await self._wish(body.data)
        changed = await self._database.write(subscriptions.replace, ask.client.id, public_id, wish)
        return self._answer(ask, changed)

    async def delete(self, ask: Ask) -> Answer:
        """The client is sent events of all types then, by polling."""
        require_acceptable(ask.request)
        public_id = ask.path_text("event_subscription_id")
        await self._database.write(subscriptions.delete, ask.client.id, public_id)
        return Answer(204)

    async def _wish(self, data: SubscriptionData) -> Wish:
        types = None if data.event_types is UNSET else _checked_types(data.event_types)
        callback_url = None if data.callback_url is UNSET else data.callback_url
        if callback_url is not None:
            await check_callback(self._client, callback_url, "Data.CallbackUrl")
        return Wish(callback_url, data.version, types)

    def _answer(self, ask: Ask, subscription: Subscription) -> SubscriptionAnswer:
        link = f"{self._collection(ask)}/{subscription.public_id}"
        return SubscriptionAnswer(_view(subscription), LinksView(link), MetaView())

    def _collection(self, ask: Ask) -> str:
        path = ask.request.url.path
        return base_url_of(ask.request, self._public_url) + path[: path.index(PATH) + len(PATH)]


def _checked_types(types: list[str]) -> tuple[str, ...]:
    for place, name in enumerate(types):
        if not is_event_type(name):
            raise UnsupportedEventType(f"Data.EventTypes[{place}]", "an event type that is a URI, urn:… or https://…")
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
