"""Bugs in event polling, which the checker of events must find. See `crash_point` for how to start them."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from restante.core.events.poll_acks import NO_VERDICTS, Verdicts
from restante.database.connection import Connection, Row
from restante.database.queries import Query
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxOptions, InboxPollRequest
from restante.events.inbox.poll import EventPoll
from tests.faults.crash_point import CrashPoint, replace, respond_before_commit_of, start

ACKNOWLEDGE_ALL = Query(
    "acknowledge_all",
    "UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms WHERE client = :client AND status = 'ready'",
)


def respond_before_commit(crash: CrashPoint) -> None:
    """The crash is in a batch whose verdicts changed events: many polls have none, and then nothing can be lost."""
    polled: Counter[int] = Counter()
    polled_before: dict[int, int] = {}
    for name in ("start", "admit_idle"):
        replace(EventPoll, name, _counting(getattr(EventPoll, name), polled))
    apply_verdicts = inbox.apply_verdicts

    def apply_and_note(conn: Connection, client: int, verdicts: Verdicts) -> tuple[int, int]:
        polled_before[client] = polled[client]
        return apply_verdicts(conn, client, verdicts)

    def wait_until_received(calls: list[tuple[Any, ...]]) -> None:
        """A client has one request at a time: it has the response when it polls again."""
        while all(polled[client] == polled_before[client] for _conn, client, _verdicts in calls):
            time.sleep(0.01)

    replace(inbox, "apply_verdicts", apply_and_note)
    respond_before_commit_of(crash, inbox, "apply_verdicts", any, wait_until_received)


def _counting(poll: Callable[..., Any], polled: Counter[int]) -> Callable[..., Any]:
    def counted(self: EventPoll, client: int, *args: Any) -> Any:
        polled[client] += 1
        return poll(self, client, *args)

    return counted


def choose_before_acknowledging(_crash: CrashPoint) -> None:
    """A poll chooses its events before it applies its acknowledgements."""
    poll_inbox, apply_verdicts = inbox.poll_inbox, inbox.apply_verdicts

    def poll_then_acknowledge(
        conn: Connection, options: InboxOptions, request: InboxPollRequest
    ) -> inbox.InboxPollResult:
        result = poll_inbox(conn, options, request._replace(verdicts=NO_VERDICTS))
        acknowledged, errored = apply_verdicts(conn, request.client, request.verdicts)
        return result._replace(acknowledged=acknowledged, errored=errored)

    replace(inbox, "poll_inbox", poll_then_acknowledge)


def acknowledge_on_delivery(_crash: CrashPoint) -> None:
    """Every delivered event counts as acknowledged."""
    poll_inbox = inbox.poll_inbox

    def poll_and_acknowledge_all(
        conn: Connection, options: InboxOptions, request: InboxPollRequest
    ) -> inbox.InboxPollResult:
        result = poll_inbox(conn, options, request)
        conn.run(ACKNOWLEDGE_ALL, client=request.client, now_ms=conn.now_ms)
        return result

    replace(inbox, "poll_inbox", poll_and_acknowledge_all)


def change_token_each_time(_crash: CrashPoint) -> None:
    """The token differs in each delivery."""
    candidates = inbox._candidates
    calls = 0

    def changed_candidates(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> list[Row]:
        nonlocal calls
        calls += 1
        rows = candidates(conn, options, request)
        return [{**dict(row), "text": f"{row['text']}{calls}"} for row in rows]

    replace(inbox, "_candidates", changed_candidates)


def deliver_newest_first(_crash: CrashPoint) -> None:
    candidates = inbox._candidates
    replace(inbox, "_candidates", lambda conn, options, request: list(reversed(candidates(conn, options, request))))


def ignore_errors(_crash: CrashPoint) -> None:
    """Errors that clients report are ignored."""
    apply_verdicts = inbox.apply_verdicts

    def without_errors(conn: Connection, client: int, verdicts: Verdicts) -> tuple[int, int]:
        return apply_verdicts(conn, client, verdicts._replace(errored={}))

    replace(inbox, "apply_verdicts", without_errors)


if __name__ == "__main__":
    start(
        respond_before_commit,
        choose_before_acknowledging,
        acknowledge_on_delivery,
        change_token_each_time,
        deliver_newest_first,
        ignore_errors,
    )
