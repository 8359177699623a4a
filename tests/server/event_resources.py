"""The resources for routes of event polling: a new client with events, and clients whose tokens are refused."""

from typing import NamedTuple
from uuid import uuid4

from restante.database.connection import Connection
from restante.events.push import subscriptions
from restante.events.push.subscriptions import SubscriptionRequest
from restante.events.response_format import EventsResponseFormat
from restante.events.ssf import response_format, streams
from restante.events.ssf.streams import StreamRequest
from restante.identity.master_key import MasterKey
from restante.web.routes import Route
from tests.events import inbox_fixture
from tests.events.default_options import stream_rules

EVERY_SCOPE = "eventpolling ssf.read ssf.manage"


class EventResources(NamedTuple):
    """The resources of one client. `token` is its access token; `jti` waits in its inbox.

    The subscription and the stream belong to a second, subscribed client, whose access token is `subscribed_token`.
    """

    client: int
    client_id: str
    token: str
    jti: str
    errored_jti: str
    kid: str
    subscribed_token: str
    event_subscription_id: str
    stream_id: str
    tag: str = "pilot"

    def for_route(self, route: Route) -> "EventResources":
        """The resources with the event that the route can act on."""
        needs_errored = route.path.endswith(("/release", "/drop"))
        return self._replace(jti=self.errored_jti) if needs_errored else self

    def token_for(self, route: Route) -> str:
        """The token of the client that can use the route."""
        is_creation = (route.method, route.path.rpartition("/")[2]) in (("POST", "streams"), ("POST", "events"))
        needs_subscribed = is_ssf(route) or "{event_subscription_id}" in route.path
        return self.subscribed_token if needs_subscribed and not is_creation else self.token


def is_event(route: Route) -> bool:
    return isinstance(route.response_format, EventsResponseFormat)


def is_ssf(route: Route) -> bool:
    return route.response_format is response_format.RESPONSE_FORMAT


def add_event_resources(conn: Connection, master_key: MasterKey) -> EventResources:
    client = inbox_fixture.add_client(conn, str(uuid4()), EVERY_SCOPE)
    subscribed_client = inbox_fixture.add_client(conn, str(uuid4()), EVERY_SCOPE)
    jti = uuid4().hex
    errored_jti = uuid4().hex
    inbox_fixture.put_ready(conn, client.id, errored_jti, jti)
    inbox_fixture.report_errors(conn, client.id, {errored_jti: ("jwtIss", "not ours")})
    kid = inbox_fixture.add_key(conn, master_key)
    subscription = subscriptions.create(conn, subscribed_client.id, SubscriptionRequest(None, "4.0", None))
    stream = streams.create(conn, stream_rules(verification_seconds=0), subscribed_client.id, StreamRequest())
    subscribed = (subscribed_client.token, subscription.public_id, stream.public_id)
    return EventResources(client.id, client.client_id, client.token, jti, errored_jti, kid, *subscribed)


def add_invalid_tokens(conn: Connection) -> dict[str, str]:
    """Tokens that are refused, by the kind of client."""
    suspended = inbox_fixture.add_client(conn, str(uuid4()))
    inbox_fixture.suspend(conn, suspended.id)
    return {
        "suspended client": suspended.token,
        "client with an expired token": inbox_fixture.add_client(conn, str(uuid4()), seconds=0).token,
        "client without the scope": inbox_fixture.add_client(conn, str(uuid4()), scope="openid").token,
    }
