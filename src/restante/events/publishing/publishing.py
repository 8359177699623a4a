"""Publishes an event: adds one row to the inbox of each recipient, in the caller's transaction.

    publish(conn, EventRequest(client_id="tpp-1", sub="https://…", events={"urn:…": {…}}))  ─▶ jtis

Nothing is signed here. The rows are stored as `unsigned`, and the commit event `EventsToSign` wakes the signer. So
publishing costs inserts alone and needs neither keys nor settings. A program that shares the database may call
`publish` inside its own transaction: the event is published if and only if that transaction commits.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from restante.core.errors import BadInput
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection
from restante.database.writer.batching import Failed
from restante.events.inbox import inbox
from restante.events.inbox.inbox import OPEN_BANKING, SHARED_SIGNALS, NewEvent
from restante.events.publishing import event_audit
from restante.events.publishing.event_audit import NewAction
from restante.events.publishing.recipients import AddressedEvent, Recipient, RecipientReader, TargetedEvent
from restante.events.publishing.token_claims import (
    CheckedEvent,
    TokenEnvelope,
    checked_event,
    open_banking_claims,
    shared_signals_claims,
)

# Inboxes share this many locks: few enough that one transaction can hold all of them.
LOCK_STRIPES = 32


class EventsToSign(ClusterMessage, frozen=True, tag="sign"):
    """`rows` new events wait to be signed. Zero: existing events wait to be signed again."""

    work_role: ClassVar[str] = "signing"

    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRequest:
    """An event for one client, or for all clients that subscribed to its types.

    `sub` is the URI of the event's resource. `sub_id` is the subject for Shared Signals receivers, by default made from
    `sub`. `toe` is the time of the event in seconds, by default now.
    """

    events: Mapping[str, Any]
    client_id: str | None = None
    all_subscribers: bool = False
    sub: str | None = None
    sub_id: Mapping[str, Any] | None = None
    txn: str | None = None
    toe: int | None = None


@dataclass(frozen=True, slots=True)
class Publisher:
    """The publisher, for the audit log: a name, and the id of an API key, because names of keys may be reused."""

    actor: str
    key_id: int | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """An event to publish. With `by`, the audit log records the publisher and the event's `txn`."""

    event: EventRequest
    by: Publisher | None = None


def publish(conn: Connection, event: EventRequest, by: Publisher | None = None) -> list[str]:
    """Publish one event; return the ids (jti) of its tokens, none if no client subscribed to it."""
    (outcome,) = publish_all(conn, [Publication(event, by)])
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


def publish_all(conn: Connection, publications: Sequence[Publication]) -> list[list[str] | Failed]:
    """`publish` each event in order, with the same few statements for all of them.

    For an event to all subscribers, these statements are repeated for each page of clients.
    """
    if any(each.event.client_id is None for each in publications):
        # Before the first page is read: locks that each page adds would not be in the same order in every transaction.
        conn.lock("inbox", *range(LOCK_STRIPES))
    recipients = RecipientReader(conn, [each.event.client_id for each in publications])
    seconds = conn.now_ms // 1000
    checked = [_check(each.event, seconds) for each in publications]
    jtis: list[list[str]] = [[] for _ in publications]
    failures: dict[int, Failed] = {}
    for part in recipients.parts(checked):
        enqueued = iter(enqueue(conn, [each for each in part if isinstance(each, AddressedEvent)]))
        for number, each in enumerate(part):
            if isinstance(each, Failed):
                failures[number] = each
            else:
                jtis[number] += next(enqueued)
    outcomes = [failures.get(number, own) for number, own in enumerate(jtis)]
    actions: list[NewAction] = []
    for publication, event, outcome in zip(publications, checked, outcomes, strict=True):
        if publication.by is not None and isinstance(event, TargetedEvent) and isinstance(outcome, list) and outcome:
            actions.append(_action(publication.by, publication.event.client_id, event.event, len(outcome)))
    event_audit.record_all(conn, actions)
    return outcomes


def enqueue(conn: Connection, events: Sequence[AddressedEvent]) -> list[list[str]]:
    """Add each event to the inboxes of exactly its recipients; return the jtis of each event's tokens.

    The lock makes other publishers for the same clients wait, so that a client's events are numbered in commit order.
    """
    conn.lock("inbox", *(recipient.client % LOCK_STRIPES for each in events for recipient in each.recipients))
    seconds = conn.now_ms // 1000
    rows = [[row for to in each.recipients for row in _rows(each.event, to, seconds)] for each in events]
    all_rows = [row for each in rows for row in each]
    inbox.add_events(conn, all_rows)
    if all_rows:
        conn.add_commit_event(EventsToSign(len(all_rows)))
    return [[row.jti for row in each] for each in rows]


def random_id() -> str:
    """Return 128 random bits in hexadecimal: an id that is never reused."""
    return secrets.token_hex(16)


def _rows(event: CheckedEvent, recipient: Recipient, seconds: int) -> Iterator[NewEvent]:
    if recipient.stream is None:
        to = TokenEnvelope(recipient.client_id, random_id(), seconds)
        yield _row(event, recipient, to, recipient.types, open_banking_claims(event, recipient.types, to))
        return
    for event_type in recipient.types:
        to = TokenEnvelope(recipient.client_id, random_id(), seconds)
        yield _row(event, recipient, to, [event_type], shared_signals_claims(event, event_type, to))


def _row(event: CheckedEvent, recipient: Recipient, to: TokenEnvelope, types: list[str], claims: str) -> NewEvent:
    return NewEvent(
        client=recipient.client,
        jti=to.jti,
        txn=event.txn,
        event_types=msgspec.json.encode(types).decode(),
        claims=claims,
        profile=OPEN_BANKING if recipient.stream is None else SHARED_SIGNALS,
        stream=recipient.stream,
    )


def _check(request: EventRequest, seconds: int) -> TargetedEvent | Failed:
    if (request.client_id is not None) == request.all_subscribers:
        return Failed(BadInput("client_id", "either a client_id or all_subscribers"))
    txn = random_id() if request.txn is None else request.txn
    toe = seconds if request.toe is None else request.toe
    try:
        return TargetedEvent(request.client_id, checked_event(request.events, txn, toe, request.sub, request.sub_id))
    except BadInput as error:
        return Failed(error)


def _action(by: Publisher, client_id: str | None, event: CheckedEvent, tokens: int) -> NewAction:
    key = {} if by.key_id is None else {"key_id": by.key_id}
    detail = {"txn": event.txn, "types": list(event.events), "tokens": tokens, **key}
    return NewAction(by.actor, "event.published", client_id, detail)
