"""Bugs in event polling, which the checker of events must find. See `crash_point` for how to start them."""

from restante.core.events.poll_acks import NO_VERDICTS, Verdicts
from restante.database.connection import Connection, Row
from restante.database.queries import Query
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxOptions, InboxPollRequest
from tests.faults.crash_point import CrashPoint, replace, respond_before_commit_of, start

ACKNOWLEDGE_ALL = Query(
    "acknowledge_all",
    "UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms WHERE client = :client AND status = 'ready'",
)


def respond_before_commit(crash: CrashPoint) -> None:
    respond_before_commit_of(crash, inbox, "apply_verdicts")


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
