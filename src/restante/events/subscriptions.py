"""What a client subscribed to: where it is notified, which version of the resources, which types of events.

One for each client. Without one, it is sent events of all types, by polling. What the types say counts for what is
published from then on: what lies in the inbox stays there.
"""

import json
from typing import NamedTuple
from uuid import uuid4

from restante.core.errors import NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import receivers
from restante.events.public_ids import known_form
from restante.events.wire import AlreadyExists

SQL = queries_beside(__file__)

PROFILE: receivers.Profile = "open-banking"
NOT_THERE = "there is no such event subscription"


class AlreadySubscribed(AlreadyExists):
    """There is an event subscription of this client already."""


class Wish(NamedTuple):
    """What a client asks for. No callback: polling only. No types: all."""

    callback_url: str | None
    version: str
    event_types: tuple[str, ...] | None


class Subscription(NamedTuple):
    public_id: str
    callback_url: str | None
    version: str
    event_types: tuple[str, ...] | None


def create(conn: Connection, client: int, wish: Wish) -> Subscription:
    """The client's one subscription; AlreadySubscribed if it has one."""
    row = conn.one(SQL.insert_subscription, public_id=str(uuid4()), client=client, now_ms=conn.now_ms, **_columns(wish))
    if row is None:
        raise AlreadySubscribed()
    _notify_at(conn, client, wish.callback_url)
    return _subscription(row)


def find(conn: Connection, client: int) -> Subscription | None:
    row = conn.one(SQL.subscription_of, client=client)
    return None if row is None else _subscription(row)


def replace(conn: Connection, client: int, public_id: str, wish: Wish) -> Subscription:
    """Change the subscription, if it is the client's; another's and an absent one look the same."""
    public_id = known_form(public_id, NOT_THERE)
    before = conn.one(SQL.lock_subscription, client=client, public_id=public_id)
    row = conn.one(SQL.replace_subscription, client=client, public_id=public_id, now_ms=conn.now_ms, **_columns(wish))
    if before is None or row is None:
        raise NotFound(NOT_THERE)
    if before["callback_url"] != wish.callback_url:
        _notify_at(conn, client, wish.callback_url)
    return _subscription(row)


def delete(conn: Connection, client: int, public_id: str) -> None:
    if not conn.run(SQL.delete_subscription, client=client, public_id=known_form(public_id, NOT_THERE)):
        raise NotFound(NOT_THERE)
    receivers.remove(conn, client, PROFILE)


def _notify_at(conn: Connection, client: int, callback_url: str | None) -> None:
    if callback_url is None:
        receivers.remove(conn, client, PROFILE)
    else:
        receivers.put(conn, client, PROFILE, callback_url)


def _columns(wish: Wish) -> dict[str, str | None]:
    types = None if wish.event_types is None else json.dumps(wish.event_types)
    return {"callback_url": wish.callback_url, "version": wish.version, "event_types": types}


def _subscription(row: Row) -> Subscription:
    types = None if row["event_types"] is None else tuple(json.loads(row["event_types"]))
    return Subscription(row["public_id"], row["callback_url"], row["version"], types)
