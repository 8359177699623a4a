"""Starts the server with a fault in its handling of events built in, for tests of the checker that is to find it.

python -m tests.faults.events_sabotage FAULT die|live serve …
"""

from collections.abc import Callable

from restante.core.acknowledgement import NO_VERDICTS, Verdicts
from restante.database.connection import Connection, Row
from restante.database.queries import Query
from restante.events import inbox
from restante.events.inbox import InboxOptions, Wish
from tests.faults.sabotage import Crash, answer_early, replace, start

ACKNOWLEDGE_ALL = Query(
    "acknowledge_all",
    "UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms WHERE client = :client AND status = 'ready'",
)


def answer_before_commit(crash: Crash) -> None:
    answer_early(crash, inbox, "judge")


def acknowledged_after_choosing(_crash: Crash) -> None:
    """What a poll says is taken in, but after its events were chosen."""
    take, judge = inbox.take, inbox.judge

    def backwards(conn: Connection, options: InboxOptions, wish: Wish) -> inbox.Handed:
        handed = take(conn, options, wish._replace(verdicts=NO_VERDICTS))
        acknowledged, errored = judge(conn, wish.client, wish.verdicts)
        return handed._replace(acknowledged=acknowledged, errored=errored)

    replace(inbox, "take", backwards)


def acknowledged_by_delivery(_crash: Crash) -> None:
    """Whatever was handed out is taken for acknowledged."""
    take = inbox.take

    def hasty(conn: Connection, options: InboxOptions, wish: Wish) -> inbox.Handed:
        handed = take(conn, options, wish)
        conn.run(ACKNOWLEDGE_ALL, client=wish.client, now_ms=conn.now_ms)
        return handed

    replace(inbox, "take", hasty)


def signed_each_time(_crash: Crash) -> None:
    """The token is made anew for each delivery."""
    candidates = inbox._candidates
    made = 0

    def anew(conn: Connection, options: InboxOptions, wish: Wish) -> list[Row]:
        nonlocal made
        made += 1
        rows = candidates(conn, options, wish)
        return [{**dict(row), "text": f"{row['text']}{made}"} for row in rows]

    replace(inbox, "_candidates", anew)


def newest_first(_crash: Crash) -> None:
    candidates = inbox._candidates
    replace(inbox, "_candidates", lambda conn, options, wish: list(reversed(candidates(conn, options, wish))))


def errors_forgotten(_crash: Crash) -> None:
    """What the client calls wrong is passed over."""
    judge = inbox.judge

    def deaf(conn: Connection, client: int, verdicts: Verdicts) -> tuple[int, int]:
        return judge(conn, client, verdicts._replace(errored={}))

    replace(inbox, "judge", deaf)


FAULTS: dict[str, Callable[[Crash], None]] = {
    fault.__name__: fault
    for fault in (
        answer_before_commit,
        acknowledged_after_choosing,
        acknowledged_by_delivery,
        signed_each_time,
        newest_first,
        errors_forgotten,
    )
}

if __name__ == "__main__":
    start(FAULTS)
