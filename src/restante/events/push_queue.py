"""What is to be pushed, to whom, and what came of it: every step one transaction.

    claim ─▶ (the event is sent, outside of any transaction) ─▶ settle ─▶ the receiver's next event, or it is let go

A receiver is claimed, not an event, with a lease: whoever holds it sends its events one at a time, oldest first. Must
always hold: of all processes one at most sends to a receiver; an event that was answered 202 is acknowledged as by a
poll, also if the lease has run out meanwhile; one that a poll acknowledged is not sent again; one that is given up
stays where polls find it. A process that dies between the answer and its commit has it sent again, the same bytes.
"""

from typing import NamedTuple

import msgspec

from restante.core.acknowledgement import Fault, Verdicts
from restante.core.push_outcome import PushRules, meaning_of
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import inbox
from restante.events.inbox import SHARED_SIGNALS

SQL = queries_beside(__file__)

PROBLEM_CHARACTERS_MAX = 256
ERR_CHARACTERS_MAX = 40


class Delivery(NamedTuple):
    """An event on its way to the receiver that was claimed for it."""

    client: int
    profile: str
    url: str
    sealed_authorization: bytes | None
    event: int
    jti: str
    token: str
    attempts: int


class Result(NamedTuple):
    """The answer, as far as it matters; no status: there was none, and `problem` says why."""

    status: int | None
    problem: str | None = None
    body: bytes = b""


class Holder(NamedTuple):
    """Who claims receivers, and for how long."""

    name: str
    lease_ms: int


class Settled(NamedTuple):
    """What came of it, for the counts, and the receiver's next event if it is still held."""

    outcome: str
    given_up: int
    following: Delivery | None


class ReceiverError(msgspec.Struct):
    """RFC 8935: what a receiver has against an event."""

    err: str
    description: str = ""


def claim(conn: Connection, holder: Holder, limit: int) -> list[Delivery]:
    """Hold receivers that have something to be sent, those first that were sent to longest ago."""
    found = (_take(conn, holder, row) for row in conn.all(SQL.claimable, now_ms=conn.now_ms, limit=limit))
    return [delivery for delivery in found if delivery is not None]


def settle(
    conn: Connection, holder: Holder, rules: PushRules, sent: Delivery, result: Result, chance: float, *, goes_on: bool
) -> Settled:
    """Write down what came of it. `goes_on`: hold the receiver for its next event."""
    meaning = meaning_of(result.status)
    given_up = 0
    if meaning == "delivered":
        # The receiver's row first, here as everywhere: several writers lock in one order.
        conn.run(SQL.note_delivered, **_whom(holder, sent), now_ms=conn.now_ms)
        inbox.judge(conn, sent.client, Verdicts([sent.jti], {}))
    elif meaning == "refused":
        given_up = _refused(conn, holder, rules, sent, result, chance)
    else:
        given_up = _failed(conn, holder, rules, sent, result, chance)
    following = None
    if meaning != "failed" and goes_on:
        row = conn.one(SQL.still_held, **_whom(holder, sent), now_ms=conn.now_ms)
        following = None if row is None else _take(conn, holder, row)
    if following is None:
        conn.run(SQL.let_go, client=sent.client, profile=sent.profile, name=holder.name)
    return Settled(meaning, given_up, following)


def release_all(conn: Connection) -> int:
    """For who knows that no other process is at work: nobody waits for the end of a dead one's leases."""
    return conn.run(SQL.let_all_go)


def seconds_until_due(conn: Connection) -> float | None:
    """When something is to be sent next, as far as it is known; None: nothing waits."""
    row = conn.one(SQL.next_due, now_ms=conn.now_ms)
    return None if row is None or row["at"] is None else max(0.0, (row["at"] - conn.now_ms) / 1000)


def open_circuits(conn: Connection, failures: int) -> int:
    """How many receivers have failed so often in a row."""
    row = conn.one(SQL.count_failing, failures=failures)
    return 0 if row is None else int(row["count"])


def _take(conn: Connection, holder: Holder, receiver: Row) -> Delivery | None:
    """Claim the receiver for its oldest event that is due; None if there is none that may go now."""
    whom = {"client": receiver["client"], "profile": receiver["profile"]}
    event = conn.one(SQL.oldest_due, **whom, open_through=receiver["open_through"], now_ms=conn.now_ms)
    token = None if event is None else inbox.text_of(conn, receiver["client"], event["id"])
    if event is None or token is None:
        return None
    until = conn.now_ms + holder.lease_ms
    conn.run(SQL.hold, **whom, name=holder.name, until=until, now_ms=conn.now_ms)
    return Delivery(
        receiver["client"],
        receiver["profile"],
        receiver["url"],
        receiver["sealed_authorization"],
        event["id"],
        event["jti"],
        token,
        event["push_attempts"],
    )


def _refused(conn: Connection, holder: Holder, rules: PushRules, sent: Delivery, result: Result, chance: float) -> int:
    """The receiver is there and does not want this event: the others need not wait for it."""
    conn.run(SQL.note_alive, **_whom(holder, sent), problem=_said(result), now_ms=conn.now_ms)
    error = _receiver_error(result.body) if sent.profile == SHARED_SIGNALS else None
    if error is not None:
        fault = Fault(error.err[:ERR_CHARACTERS_MAX], error.description[:PROBLEM_CHARACTERS_MAX] or error.err)
        inbox.judge(conn, sent.client, Verdicts([], {sent.jti: fault}))
        return 0
    wait_ms = int(rules.wait_seconds(sent.attempts + 1, chance) * 1000)
    return _tried(conn, rules, sent, result, conn.now_ms + wait_ms)


def _failed(conn: Connection, holder: Holder, rules: PushRules, sent: Delivery, result: Result, chance: float) -> int:
    """The receiver is in trouble: it waits as a whole, and what is too old waits no more."""
    row = conn.one(SQL.count_failure, **_whom(holder, sent), problem=_said(result), now_ms=conn.now_ms)
    if row is None:
        # Another holds it by now, or it has moved: its failures are not for us to count.
        return 0
    retry_at = conn.now_ms + int(rules.wait_seconds(row["failures"], chance) * 1000)
    conn.run(SQL.retry_at, client=sent.client, profile=sent.profile, retry_at=retry_at)
    given_up = _tried(conn, rules, sent, result, conn.now_ms)
    too_old = conn.now_ms - int(rules.give_up_seconds * 1000)
    return given_up + conn.run(SQL.give_up_old, client=sent.client, profile=sent.profile, too_old=too_old)


def _tried(conn: Connection, rules: PushRules, sent: Delivery, result: Result, push_at: int) -> int:
    """Count the try; 1 if it was the event's last."""
    is_over = rules.is_over(sent.attempts + 1)
    due = None if is_over else push_at
    counted = conn.run(SQL.count_try, event=sent.event, problem=_said(result), push_at=due)
    return counted if is_over else 0


def _whom(holder: Holder, sent: Delivery) -> dict[str, object]:
    """The receiver, if it is still ours and where it was when we sent."""
    return {"client": sent.client, "profile": sent.profile, "url": sent.url, "name": holder.name}


def _said(result: Result) -> str:
    return (result.problem or f"it answered {result.status}")[:PROBLEM_CHARACTERS_MAX]


def _receiver_error(body: bytes) -> ReceiverError | None:
    try:
        error = msgspec.json.decode(body, type=ReceiverError)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return error if error.err and "\0" not in error.err + error.description else None
