"""Explains why a client has not got its events, in one sentence and in fields.

The first reason that applies: it is suspended; the token endpoint refuses it; it never polled; a push fails; events are
not signed yet, held back by a delivery window, delivered and not acknowledged, or not fetched; it reported errors.
Otherwise it waits for nothing.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from restante.core.iso_time import Timestamp, iso_precise, parse_iso
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.clients import clients, refusals
from restante.events.clients.clients import EventClient
from restante.events.clients.refusals import RefusalSummary
from restante.events.publishing import client_status
from restante.events.publishing.client_status import ClientStatusDetail

SQL = queries_beside(__file__)

# Events are signed within seconds. Older unsigned ones mean that no process signs.
SIGNED_WITHIN_SECONDS = 60

ClientWaitsFor = Literal[
    "resumption",
    "access",
    "first_poll",
    "receiver",
    "signing",
    "delivery_window",
    "acknowledgement",
    "poll",
    "errored_events",
    "nothing",
]


class ClientExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: when the wait ends at the latest, if known. `waiting`: events that were not delivered yet, `unsigned` of
    these are still to be signed; `delivered`: delivered and not acknowledged. All times are UTC."""

    client_id: str
    status: Literal["active", "suspended"]
    waiting_for: ClientWaitsFor
    sentence: str
    until: Timestamp | None
    waiting: int
    unsigned: int
    delivered: int
    errored: int
    oldest_at: Timestamp | None
    delivered_at: Timestamp | None
    last_poll_at: Timestamp | None
    last_refusal: RefusalSummary | None


@dataclass(frozen=True, slots=True)
class _Facts:
    client: EventClient
    polled_ms: int | None
    counts: ClientStatusDetail
    refusal: RefusalSummary | None
    delivered_ms: int | None
    hidden_until_ms: int | None
    hidden: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class _Reason:
    waiting_for: ClientWaitsFor
    sentence: str
    until_ms: int | None = None


def explain(conn: Connection, client_id: str, polled_ms: int | None = None) -> ClientExplanation:
    """`polled_ms`: the last poll in memory, which the table may not have yet; in milliseconds."""
    facts = _facts(conn, client_id, polled_ms)
    reason = _reason(facts)
    counts = facts.counts
    return ClientExplanation(
        client_id=client_id,
        status="active" if facts.client.suspended_at is None else "suspended",
        waiting_for=reason.waiting_for,
        sentence=reason.sentence,
        until=iso_precise(reason.until_ms),
        waiting=counts.waiting,
        unsigned=counts.unsigned,
        delivered=counts.delivered,
        errored=counts.errored,
        oldest_at=counts.oldest_at,
        delivered_at=iso_precise(facts.delivered_ms),
        last_poll_at=iso_precise(facts.polled_ms),
        last_refusal=facts.refusal,
    )


def _facts(conn: Connection, client_id: str, polled_ms: int | None) -> _Facts:
    client = clients.get(conn, client_id)
    hidden = conn.one(SQL.hidden, client=client.id, now_ms=conn.now_ms)
    delivered = conn.one(SQL.oldest_delivery, client=client.id)
    refused = refusals.last_refusals(conn, client_id)
    stored = client.last_poll_at
    return _Facts(
        client,
        max(polled_ms or 0, stored or 0) or None,
        client_status.show(conn, client_id),
        refused[0] if refused else None,
        None if delivered is None else delivered["sent_at"],
        None if hidden is None else hidden["until_at"],
        0 if hidden is None else hidden["count"],
        conn.now_ms,
    )


def _reason(facts: _Facts) -> _Reason:
    return (
        _no_access(facts)
        or _push(facts)
        or _unsigned(facts)
        or _no_poll(facts)
        or _open_events(facts)
        or _errored(facts)
        or _Reason("nothing", f"It waits for nothing: it has all its events. It polled last {_last_poll(facts)}.")
    )


def _no_access(facts: _Facts) -> _Reason | None:
    if facts.client.suspended_at is not None:
        since = iso_precise(facts.client.suspended_at)
        return _Reason("resumption", f"It is suspended since {since}: it gets no events until it is resumed.")
    refusal = facts.refusal
    if refusal is None or parse_iso(refusal.last_at, "last_at") < (facts.polled_ms or 0):
        return None
    sentence = (
        f"The token endpoint refused it, last at {refusal.last_at} ({refusal.reason}, {refusal.count} times): "
        f"{refusal.detail}. It has not polled since."
    )
    return _Reason("access", sentence)


def _no_poll(facts: _Facts) -> _Reason | None:
    if facts.polled_ms is not None or facts.counts.receivers:
        return None
    waiting = f"; {facts.counts.waiting} of its events wait" if facts.counts.waiting else ""
    return _Reason(
        "first_poll", f"It was registered at {iso_precise(facts.client.created_at)} and has never polled{waiting}."
    )


def _push(facts: _Facts) -> _Reason | None:
    for receiver in facts.counts.receivers:
        if receiver.problem is not None and receiver.waiting:
            sentence = (
                f"Its receiver {receiver.url} did not accept the last push ({receiver.failures} failures in a row, "
                f"last tried at {receiver.last_tried_at}): {receiver.problem}. {receiver.waiting} of its events wait."
            )
            return _Reason("receiver", sentence)
    return None


def _unsigned(facts: _Facts) -> _Reason | None:
    counts = facts.counts
    if not counts.unsigned or (counts.oldest_age_seconds or 0) < SIGNED_WITHIN_SECONDS:
        return None
    sentence = (
        f"{counts.unsigned} of its events are not signed, the oldest event is of {counts.oldest_at}: no process with "
        "the role signing signs them, or it has no key."
    )
    return _Reason("signing", sentence)


def _open_events(facts: _Facts) -> _Reason | None:
    counts = facts.counts
    if counts.delivered and facts.hidden >= counts.delivered + counts.waiting:
        sentence = (
            f"All its {facts.hidden} open events were delivered; the next is delivered again at "
            f"{iso_precise(facts.hidden_until_ms)}, if it is not acknowledged before."
        )
        return _Reason("delivery_window", sentence, facts.hidden_until_ms)
    if counts.delivered:
        sentence = (
            f"It has got {counts.delivered} events that it has not acknowledged, the first since "
            f"{iso_precise(facts.delivered_ms)}; it polled last {_last_poll(facts)}. Events are delivered oldest first."
        )
        return _Reason("acknowledgement", sentence)
    if counts.waiting:
        sentence = (
            f"{counts.waiting} of its events wait for its next poll, the oldest since {counts.oldest_at}; it polled "
            f"last {_last_poll(facts)}."
        )
        return _Reason("poll", sentence)
    return None


def _errored(facts: _Facts) -> _Reason | None:
    counts = facts.counts
    if not counts.errored:
        return None
    first = counts.reasons[0] if counts.reasons else None
    reason = "" if first is None else f", most often {first.err}: {first.newest_description}"
    sentence = f"It reported that it cannot use {counts.errored} events{reason}. An operator can release or drop them."
    return _Reason("errored_events", sentence)


def _last_poll(facts: _Facts) -> str:
    return "never" if facts.polled_ms is None else f"at {iso_precise(facts.polled_ms)}"
