"""Event subscriptions: callback URL, resource version and event types of a client; at most one for each client.

A client without a subscription receives events of all types, by polling. Event types apply to events that are published
later; events in the inbox stay there.
"""

import json
from dataclasses import dataclass
from uuid import uuid4

from restante.core.errors import NotFound
from restante.core.events.public_id import check_public_id
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events.errors import AlreadyExists
from restante.events.push import receivers

SQL = queries_beside(__file__)

PROFILE: receivers.Profile = "open-banking"
NOT_FOUND = "there is no such event subscription"


class AlreadySubscribed(AlreadyExists):
    """The client already has an event subscription."""


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """The values a client requests. No callback URL: polling only. No types: all types."""

    callback_url: str | None
    version: str
    event_types: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Subscription:
    public_id: str
    callback_url: str | None
    version: str
    event_types: tuple[str, ...] | None


def create(conn: Connection, client: int, request: SubscriptionRequest) -> Subscription:
    """Create the client's subscription; raise AlreadySubscribed if it has one."""
    row = conn.one(
        SQL.insert_subscription, public_id=str(uuid4()), client=client, now_ms=conn.now_ms, **_columns(request)
    )
    if row is None:
        raise AlreadySubscribed()
    _set_callback(conn, client, request.callback_url)
    return _subscription(row)


def find(conn: Connection, client: int) -> Subscription | None:
    row = conn.one(SQL.subscription_of, client=client)
    return None if row is None else _subscription(row)


def replace(conn: Connection, client: int, public_id: str, request: SubscriptionRequest) -> Subscription:
    """Replace the client's subscription; raise NotFound if it is missing or belongs to another client."""
    public_id = check_public_id(public_id, NOT_FOUND)
    before = conn.one(SQL.lock_subscription, client=client, public_id=public_id)
    row = conn.one(
        SQL.replace_subscription, client=client, public_id=public_id, now_ms=conn.now_ms, **_columns(request)
    )
    if before is None or row is None:
        raise NotFound(NOT_FOUND)
    if before["callback_url"] != request.callback_url:
        _set_callback(conn, client, request.callback_url)
    return _subscription(row)


def delete(conn: Connection, client: int, public_id: str) -> None:
    if not conn.run(SQL.delete_subscription, client=client, public_id=check_public_id(public_id, NOT_FOUND)):
        raise NotFound(NOT_FOUND)
    receivers.remove_receiver(conn, client, PROFILE)


def _set_callback(conn: Connection, client: int, callback_url: str | None) -> None:
    if callback_url is None:
        receivers.remove_receiver(conn, client, PROFILE)
    else:
        receivers.set_receiver(conn, client, PROFILE, callback_url)


def _columns(request: SubscriptionRequest) -> dict[str, str | None]:
    types = None if request.event_types is None else json.dumps(request.event_types)
    return {"callback_url": request.callback_url, "version": request.version, "event_types": types}


def _subscription(row: Row) -> Subscription:
    types = None if row["event_types"] is None else tuple(json.loads(row["event_types"]))
    return Subscription(row["public_id"], row["callback_url"], row["version"], types)
