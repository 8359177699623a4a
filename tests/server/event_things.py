"""Everything that a route of event polling can be about: a client of its own with an event, and who else may knock."""

from typing import NamedTuple
from uuid import uuid4

from restante.database.connection import Connection
from restante.events import ssf_wire, streams, subscriptions
from restante.events.event_catalogue import SUPPORTED_BY_DEFAULT
from restante.events.streams import StreamRules, StreamWish
from restante.events.subscriptions import Wish
from restante.events.wire import SHAPE
from restante.identity.master_key import MasterKey
from restante.web.routes import Route
from tests.events import bank

EVERY_SCOPE = "eventpolling ssf.read ssf.manage"


class EventThings(NamedTuple):
    """One client's. `token` is its access token; `jti` waits in its inbox. The subscription and the stream are those
    of another client, which is settled; `settled_token` is its access token."""

    client: int
    client_id: str
    token: str
    jti: str
    errored_jti: str
    kid: str
    settled_token: str
    event_subscription_id: str
    stream_id: str

    def for_route(self, route: Route) -> "EventThings":
        """With the event that the route can do something about."""
        needs_errored = route.path.endswith(("/release", "/drop"))
        return self._replace(jti=self.errored_jti) if needs_errored else self

    def token_for(self, route: Route) -> str:
        """Of the client that can do something with the route."""
        makes_new = (route.method, route.path.rpartition("/")[2]) in (("POST", "streams"), ("POST", "events"))
        is_settled = is_signals(route) or "{event_subscription_id}" in route.path
        return self.settled_token if is_settled and not makes_new else self.token


def is_event(route: Route) -> bool:
    return route.shape is SHAPE


def is_signals(route: Route) -> bool:
    return route.shape is ssf_wire.SHAPE


def add_event_things(conn: Connection, master_key: MasterKey) -> EventThings:
    client = bank.add_client(conn, str(uuid4()), EVERY_SCOPE)
    settled = bank.add_client(conn, str(uuid4()), EVERY_SCOPE)
    jti = uuid4().hex
    errored_jti = uuid4().hex
    bank.put_ready(conn, client.id, errored_jti, jti)
    bank.call_wrong(conn, client.id, {errored_jti: ("jwtIss", "not ours")})
    kid = bank.add_key(conn, master_key)
    subscribed = subscriptions.create(conn, settled.id, Wish(None, "4.0", None))
    stream = streams.create(conn, StreamRules(SUPPORTED_BY_DEFAULT, verification_seconds=0), settled.id, StreamWish())
    settled_ones = (settled.token, subscribed.public_id, stream.public_id)
    return EventThings(client.id, client.client_id, client.token, jti, errored_jti, kid, *settled_ones)


def add_unwelcome(conn: Connection) -> dict[str, str]:
    """Tokens of clients that may not poll, by who they are."""
    suspended = bank.add_client(conn, str(uuid4()))
    bank.suspend(conn, suspended.id)
    return {
        "suspended client": suspended.token,
        "client with an expired token": bank.add_client(conn, str(uuid4()), seconds=0).token,
        "client without the scope": bank.add_client(conn, str(uuid4()), scope="accounts").token,
    }
