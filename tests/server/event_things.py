"""Everything that a route of event polling can be about: a client of its own with an event, and who else may knock."""

from typing import NamedTuple
from uuid import uuid4

from restante.database.connection import Connection
from restante.events.wire import SHAPE
from restante.web.routes import Route
from tests.events import bank


class EventThings(NamedTuple):
    """One client's. `token` is its access token; `jti` waits in its inbox."""

    client: int
    client_id: str
    token: str
    jti: str


def is_event(route: Route) -> bool:
    return route.shape is SHAPE


def add_event_things(conn: Connection) -> EventThings:
    client = bank.add_client(conn, str(uuid4()))
    jti = uuid4().hex
    bank.put_ready(conn, client.id, jti)
    return EventThings(client.id, client.client_id, client.token, jti)


def add_unwelcome(conn: Connection) -> dict[str, str]:
    """Tokens of clients that may not poll, by who they are."""
    suspended = bank.add_client(conn, str(uuid4()))
    bank.suspend(conn, suspended.id)
    return {
        "suspended client": suspended.token,
        "client with an expired token": bank.add_client(conn, str(uuid4()), seconds=0).token,
        "client without the scope": bank.add_client(conn, str(uuid4()), scope="accounts").token,
    }
