"""Everything that a route of event polling can be about: a client of its own with an event, and who else may knock."""

from typing import NamedTuple
from uuid import uuid4

from restante.database.connection import Connection
from restante.events.wire import SHAPE
from restante.identity.master_key import MasterKey
from restante.web.routes import Route
from tests.events import bank


class EventThings(NamedTuple):
    """One client's. `token` is its access token; `jti` waits in its inbox."""

    client: int
    client_id: str
    token: str
    jti: str
    errored_jti: str
    kid: str

    def for_route(self, route: Route) -> "EventThings":
        """With the event that the route can do something about."""
        needs_errored = route.path.endswith(("/release", "/drop"))
        return self._replace(jti=self.errored_jti) if needs_errored else self


def is_event(route: Route) -> bool:
    return route.shape is SHAPE


def add_event_things(conn: Connection, master_key: MasterKey) -> EventThings:
    client = bank.add_client(conn, str(uuid4()))
    jti = uuid4().hex
    errored_jti = uuid4().hex
    bank.put_ready(conn, client.id, errored_jti, jti)
    bank.call_wrong(conn, client.id, {errored_jti: ("jwtIss", "not ours")})
    kid = bank.add_key(conn, master_key)
    return EventThings(client.id, client.client_id, client.token, jti, errored_jti, kid)


def add_unwelcome(conn: Connection) -> dict[str, str]:
    """Tokens of clients that may not poll, by who they are."""
    suspended = bank.add_client(conn, str(uuid4()))
    bank.suspend(conn, suspended.id)
    return {
        "suspended client": suspended.token,
        "client with an expired token": bank.add_client(conn, str(uuid4()), seconds=0).token,
        "client without the scope": bank.add_client(conn, str(uuid4()), scope="accounts").token,
    }
