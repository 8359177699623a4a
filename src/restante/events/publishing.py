"""Publishing an event: a row in the inbox of everybody it is for, in the caller's transaction.

    publish(conn, EventWish(client_id="tpp-1", sub="https://…", events={"urn:…": {…}}))  ─▶ jtis

Nothing is signed here. The rows wait as `unsigned` and the commit tells the signer (`EventsToSign`), so that publishing
costs an insert and needs neither keys nor settings. Whoever shares our database may call it inside a transaction of
their own: the event is published if and only if what it tells of is committed.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.events import event_audit, inbox, recipients
from restante.events.claims import Addressed, Event, checked_event, open_banking_claims, shared_signals_claims
from restante.events.inbox import OPEN_BANKING, SHARED_SIGNALS, NewEvent
from restante.events.recipients import Recipient

# Names to take turns under, for all clients together: as many as a transaction can hold at once, and to spare.
TURNS = 32


class EventsToSign(NamedTuple):
    """Announced by a commit that left something to be signed: so many new rows."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWish:
    """An event for one client, or for all that asked for its types.

    `sub` is the URI of what it is about; `sub_id` says so as receivers of shared signals want it, and is made from
    `sub` where it is not given. `toe` is when it happened, in seconds; now, where it is not given.
    """

    events: Mapping[str, Any]
    client_id: str | None = None
    all_subscribers: bool = False
    sub: str | None = None
    sub_id: Mapping[str, Any] | None = None
    txn: str | None = None
    toe: int | None = None


class Publisher(NamedTuple):
    """Who publishes, for the record: a name, and the API key's id where it is one. A key's name may be used again."""

    actor: str
    key_id: int | None = None


def publish(conn: Connection, wish: EventWish, by: Publisher | None = None) -> list[str]:
    """The names (jti) of the tokens that will be made; none if nobody asked for such an event.

    With `by`, who it was is recorded beside what else was done, under the event's `txn`.
    """
    if (wish.client_id is not None) == wish.all_subscribers:
        raise BadInput("client_id", "either a client_id or all_subscribers")
    seconds = conn.now_ms // 1000
    txn = new_name() if wish.txn is None else wish.txn
    event = checked_event(wish.events, txn, seconds if wish.toe is None else wish.toe, wish.sub, wish.sub_id)
    if wish.client_id is None:
        found = recipients.subscribers(conn, event)
    else:
        only = recipients.of_client(conn, wish.client_id, event)
        found = [] if only is None else [only]
    jtis = queue(conn, event, found)
    if by is not None and jtis:
        key = {} if by.key_id is None else {"key_id": by.key_id}
        detail = {"txn": event.txn, "types": list(event.events), "tokens": len(jtis), **key}
        event_audit.record(conn, by.actor, "event.published", wish.client_id, detail)
    return jtis


def queue(conn: Connection, event: Event, found: list[Recipient]) -> list[str]:
    """Leave the event for exactly these, whatever they asked for.

    A client's events are numbered in the order of the commits: others for the same clients wait for this one.
    """
    conn.lock("inbox", *(recipient.client % TURNS for recipient in found))
    rows = [row for recipient in found for row in _rows(event, recipient, conn.now_ms // 1000)]
    for row in rows:
        inbox.put(conn, row)
    if rows:
        conn.announce(EventsToSign(len(rows)))
    return [row.jti for row in rows]


def new_name() -> str:
    """128 random bits: a name that was never used and will not be used again."""
    return secrets.token_hex(16)


def _rows(event: Event, recipient: Recipient, seconds: int) -> Iterator[NewEvent]:
    if recipient.stream is None:
        to = Addressed(recipient.client_id, new_name(), seconds)
        yield _row(event, recipient, to, recipient.types, open_banking_claims(event, recipient.types, to))
        return
    for event_type in recipient.types:
        to = Addressed(recipient.client_id, new_name(), seconds)
        yield _row(event, recipient, to, [event_type], shared_signals_claims(event, event_type, to))


def _row(event: Event, recipient: Recipient, to: Addressed, types: list[str], claims: str) -> NewEvent:
    return NewEvent(
        client=recipient.client,
        jti=to.jti,
        txn=event.txn,
        event_types=msgspec.json.encode(types).decode(),
        claims=claims,
        profile=OPEN_BANKING if recipient.stream is None else SHARED_SIGNALS,
        stream=recipient.stream,
    )
