"""Publishing an event: a row in the inbox of everybody it is for, in the caller's transaction.

    publish(conn, EventWish(client_id="tpp-1", sub="https://…", events={"urn:…": {…}}))  ─▶ jtis

Nothing is signed here. The rows wait as `unsigned` and the commit tells the signer (`EventsToSign`), so that publishing
costs inserts and needs neither keys nor settings. Whoever shares our database may call it inside a transaction of
their own: the event is published if and only if what it tells of is committed.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.hot import Failed
from restante.events import event_audit, inbox
from restante.events.claims import Addressed, Event, checked_event, open_banking_claims, shared_signals_claims
from restante.events.event_audit import NewAction
from restante.events.inbox import OPEN_BANKING, SHARED_SIGNALS, NewEvent
from restante.events.recipients import Asked, Clients, Recipient, Sending

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


class PublishWish(NamedTuple):
    """An event to publish. With `by`, who it was is recorded beside what else was done, under the event's `txn`."""

    event: EventWish
    by: Publisher | None = None


def publish(conn: Connection, wish: EventWish, by: Publisher | None = None) -> list[str]:
    """The names (jti) of the tokens that will be made; none if nobody asked for such an event."""
    (outcome,) = publish_all(conn, [PublishWish(wish, by)])
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


def publish_all(conn: Connection, wishes: Sequence[PublishWish]) -> list[list[str] | Failed]:
    """`publish` for each, one after another. What is read is read for all of them, and what is written for all."""
    clients = Clients(conn, [wish.event.client_id for wish in wishes])
    seconds = conn.now_ms // 1000
    sendings = clients.address([_checked(wish.event, seconds) for wish in wishes])
    queued = iter(queue(conn, [each for each in sendings if isinstance(each, Sending)]))
    actions: list[NewAction] = []
    outcomes: list[list[str] | Failed] = []
    for wish, each in zip(wishes, sendings, strict=True):
        outcome = each if isinstance(each, Failed) else next(queued)
        outcomes.append(outcome)
        if wish.by is not None and outcome and isinstance(each, Sending):
            actions.append(_action(wish.by, wish.event.client_id, each.event, len(outcome)))
    event_audit.record_all(conn, actions)
    return outcomes


def queue(conn: Connection, sendings: Sequence[Sending]) -> list[list[str]]:
    """Leave each event for exactly its recipients, whatever they asked for; the names of the tokens of each.

    A client's events are numbered in the order of the commits: others for the same clients wait for this one.
    """
    conn.lock("inbox", *(recipient.client % TURNS for each in sendings for recipient in each.recipients))
    seconds = conn.now_ms // 1000
    rows = [[row for to in each.recipients for row in _rows(each.event, to, seconds)] for each in sendings]
    every = [row for each in rows for row in each]
    inbox.put(conn, every)
    if every:
        conn.announce(EventsToSign(len(every)))
    return [[row.jti for row in each] for each in rows]


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


def _checked(wish: EventWish, seconds: int) -> Asked | Failed:
    """The event and whom it is meant for, or what is wrong with it."""
    if (wish.client_id is not None) == wish.all_subscribers:
        return Failed(BadInput("client_id", "either a client_id or all_subscribers"))
    txn = new_name() if wish.txn is None else wish.txn
    toe = seconds if wish.toe is None else wish.toe
    try:
        return Asked(wish.client_id, checked_event(wish.events, txn, toe, wish.sub, wish.sub_id))
    except BadInput as error:
        return Failed(error)


def _action(by: Publisher, client_id: str | None, event: Event, tokens: int) -> NewAction:
    key = {} if by.key_id is None else {"key_id": by.key_id}
    detail = {"txn": event.txn, "types": list(event.events), "tokens": tokens, **key}
    return NewAction(by.actor, "event.published", client_id, detail)
