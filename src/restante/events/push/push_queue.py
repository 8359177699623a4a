"""The queue of events to push: leases on receivers, and the results of pushes. Every step is one transaction.

    acquire ─▶ (send the event, outside of any transaction) ─▶ record_result ─▶ the receiver's next event, or release

A process leases a receiver, not an event, and sends its events one at a time, oldest first.

Invariants:
- At most one process sends to a receiver at any time.
- An event with the response 202 is acknowledged as by a poll, even if the lease has expired meanwhile.
- An event that a poll acknowledged is not sent again.
- An event that is given up stays available to polls.

If a process dies between the response and its commit, the event is sent again with the same bytes.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.events.poll_acks import Fault, Verdicts
from restante.core.events.push_outcome import PushResult, PushRules, push_outcome
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events.inbox import inbox
from restante.events.inbox.inbox import SHARED_SIGNALS

SQL = queries_beside(__file__)

PROBLEM_CHARACTERS_MAX = 256
ERR_CHARACTERS_MAX = 40


@dataclass(frozen=True, slots=True)
class PushDelivery:
    """The next event of a leased receiver, with everything needed to send it."""

    client: int
    profile: str
    url: str
    sealed_authorization: bytes | None
    event: int
    jti: str
    token: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The process that leases receivers, and the length of its leases."""

    name: str
    lease_ms: int


@dataclass(frozen=True, slots=True)
class RecordedPush:
    """The outcome and the number of events given up, for counters, and the receiver's next event if it stays leased."""

    outcome: str
    given_up: int
    next_delivery: PushDelivery | None


class ReceiverError(msgspec.Struct):
    """The error body of a receiver (RFC 8935). Only `err` decides; a description that is no text is ignored."""

    err: str
    description: Any = ""


def acquire(conn: Connection, holder: LeaseHolder, limit: int) -> list[PushDelivery]:
    """Lease receivers with due events, the least recently used first; return the first event of each."""
    deliveries = (_lease_next(conn, holder, row) for row in conn.all(SQL.leasable, now_ms=conn.now_ms, limit=limit))
    return [delivery for delivery in deliveries if delivery is not None]


def record_result(
    conn: Connection,
    holder: LeaseHolder,
    rules: PushRules,
    sent: PushDelivery,
    result: PushResult,
    chance: float,
    *,
    keep_lease: bool,
) -> RecordedPush:
    """Record the result of a push. With `keep_lease`, the receiver stays leased for its next event."""
    outcome = push_outcome(result.status)
    given_up = 0
    if outcome == "delivered":
        # The receiver's row first, as everywhere: all writers lock in the same order.
        conn.run(SQL.record_delivered, **_lease_key(holder, sent), now_ms=conn.now_ms)
        inbox.apply_verdicts(conn, sent.client, Verdicts([sent.jti], {}))
    elif outcome == "refused":
        given_up = _record_refused(conn, holder, rules, sent, result, chance)
    else:
        given_up = _record_failed(conn, holder, rules, sent, result, chance)
    next_delivery = None
    if outcome != "failed" and keep_lease:
        row = conn.one(SQL.still_leased, **_lease_key(holder, sent), now_ms=conn.now_ms)
        next_delivery = None if row is None else _lease_next(conn, holder, row)
    if next_delivery is None:
        conn.run(SQL.release, client=sent.client, profile=sent.profile, name=holder.name)
    return RecordedPush(outcome, given_up, next_delivery)


def release_all(conn: Connection) -> int:
    """Release all leases. Only for a start where no other process can run, so that dead leases need not expire."""
    return conn.run(SQL.release_all)


def seconds_until_due(conn: Connection) -> float | None:
    """Return the seconds until the next event may be sent, None if no event waits."""
    row = conn.one(SQL.next_due, now_ms=conn.now_ms)
    return None if row is None or row["at"] is None else max(0.0, (row["at"] - conn.now_ms) / 1000)


def open_circuits(conn: Connection, failures: int) -> int:
    """Return the number of receivers with at least so many failures in a row."""
    row = conn.one(SQL.count_failing, failures=failures)
    return 0 if row is None else int(row["count"])


def _lease_next(conn: Connection, holder: LeaseHolder, receiver: Row) -> PushDelivery | None:
    """Lease the receiver for its oldest due event; return None if it has none."""
    key = {"client": receiver["client"], "profile": receiver["profile"]}
    event = conn.one(SQL.oldest_due, **key, open_through=receiver["open_through"], now_ms=conn.now_ms)
    token = None if event is None else inbox.text_of(conn, receiver["client"], event["id"])
    if event is None or token is None:
        return None
    until = conn.now_ms + holder.lease_ms
    conn.run(SQL.lease, **key, name=holder.name, until=until, now_ms=conn.now_ms)
    return PushDelivery(
        receiver["client"],
        receiver["profile"],
        receiver["url"],
        receiver["sealed_authorization"],
        event["id"],
        event["jti"],
        token,
        event["push_attempts"],
    )


def _record_refused(
    conn: Connection, holder: LeaseHolder, rules: PushRules, sent: PushDelivery, result: PushResult, chance: float
) -> int:
    """The receiver works but rejects this event: other events do not wait for it."""
    conn.run(SQL.record_alive, **_lease_key(holder, sent), problem=_problem_text(result), now_ms=conn.now_ms)
    error = _receiver_error(result.body) if sent.profile == SHARED_SIGNALS else None
    if error is not None:
        _count_attempt(conn, sent, result, None)
        inbox.apply_verdicts(conn, sent.client, Verdicts([], {sent.jti: error}))
        return 0
    wait_ms = int(rules.wait_seconds(sent.attempts + 1, chance) * 1000)
    return _record_attempt(conn, rules, sent, result, conn.now_ms + wait_ms)


def _record_failed(
    conn: Connection, holder: LeaseHolder, rules: PushRules, sent: PushDelivery, result: PushResult, chance: float
) -> int:
    """The receiver does not work: it waits as a whole, and events that are too old are given up."""
    row = conn.one(SQL.count_failure, **_lease_key(holder, sent), problem=_problem_text(result), now_ms=conn.now_ms)
    if row is None:
        # Another process leases it by now, or its URL changed: the failure does not count.
        return 0
    retry_at = conn.now_ms + int(rules.wait_seconds(row["failures"], chance) * 1000)
    conn.run(SQL.set_retry_at, client=sent.client, profile=sent.profile, retry_at=retry_at)
    given_up = _record_attempt(conn, rules, sent, result, conn.now_ms)
    too_old = conn.now_ms - int(rules.give_up_seconds * 1000)
    return given_up + conn.run(SQL.give_up_old, client=sent.client, profile=sent.profile, too_old=too_old)


def _record_attempt(conn: Connection, rules: PushRules, sent: PushDelivery, result: PushResult, push_at: int) -> int:
    """Count the attempt; return 1 if it was the event's last."""
    is_exhausted = rules.is_exhausted(sent.attempts + 1)
    due = None if is_exhausted else push_at
    counted = _count_attempt(conn, sent, result, due)
    return counted if is_exhausted else 0


def _count_attempt(conn: Connection, sent: PushDelivery, result: PushResult, push_at: int | None) -> int:
    return conn.run(
        SQL.count_attempt, event=sent.event, problem=_problem_text(result), push_at=push_at, now_ms=conn.now_ms
    )


def _lease_key(holder: LeaseHolder, sent: PushDelivery) -> dict[str, object]:
    """Identify the receiver, if this process still leases it and its URL did not change."""
    return {"client": sent.client, "profile": sent.profile, "url": sent.url, "name": holder.name}


def _problem_text(result: PushResult) -> str:
    return (result.problem or f"response status {result.status}")[:PROBLEM_CHARACTERS_MAX]


def _receiver_error(body: bytes) -> Fault | None:
    """Return the error of an error body, None if the body is not one. PostgreSQL cannot store NUL in a text."""
    try:
        error = msgspec.json.decode(body, type=ReceiverError)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    err = error.err.replace("\0", "")[:ERR_CHARACTERS_MAX]
    description = error.description if isinstance(error.description, str) else ""
    return Fault(err, description.replace("\0", "")[:PROBLEM_CHARACTERS_MAX] or err) if err else None
