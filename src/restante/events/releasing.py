"""Events that a client could not use: released to be handed out again, as they are, or dropped for good.

One or all of a client, the same way: what is not errored is left alone, and what was done is recorded. A released event
takes its old place, so it is the next to be handed out, and is pushed again to who has a receiver.
"""

from enum import StrEnum

from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events import event_audit, listing
from restante.events.inbox import InboxChanged
from restante.events.receivers import PushDue

SQL = queries_beside(__file__)


class Decision(StrEnum):
    release = "released"
    drop = "dropped"


def decide(conn: Connection, decision: Decision, jti: str, actor: str) -> None:
    """Release or drop one event; Conflict if it is not errored."""
    row = conn.one(SQL.event, jti=jti)
    if row is None:
        raise NotFound(f"there is no event {jti}")
    if not _decide(conn, decision, row["client"], jti):
        raise Conflict(f"the event is {row['status']}: only errored events are released or dropped")
    event_audit.record(conn, actor, f"event.{decision}", row["client_id"], {"jti": jti})


def decide_some(conn: Connection, decision: Decision, jtis: list[str], actor: str) -> int:
    """Release or drop these, all or none of them; how many."""
    for jti in dict.fromkeys(jtis):
        decide(conn, decision, jti, actor)
    return len(dict.fromkeys(jtis))


def decide_all(conn: Connection, decision: Decision, client_id: str, actor: str) -> int:
    """Release or drop everything of the client that is errored; how many events."""
    count = _decide(conn, decision, listing.client_row(conn, client_id), None)
    if count:
        event_audit.record(conn, actor, f"events.{decision}", client_id, {"count": count})
    return count


def _decide(conn: Connection, decision: Decision, client: int, jti: str | None) -> int:
    query = SQL.release if decision is Decision.release else SQL.drop
    count = conn.run(query, client=client, jti=jti, now_ms=conn.now_ms)
    if count and decision is Decision.release:
        conn.announce(InboxChanged(client))
        conn.announce(PushDue())
    return count
