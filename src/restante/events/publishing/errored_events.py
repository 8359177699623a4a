"""Resolves errored events (a client reported that it cannot use them): release for delivery again, or drop for good.

Works for one event, for several, or for all of a client. Events that are not errored stay unchanged, and every
resolution is written to the audit log. A released event keeps its bytes and its position, so it is delivered next; it
is pushed again if the client has a receiver.
"""

from enum import StrEnum

from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing import event_audit, listing
from restante.events.push.receivers import PushDue
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)


class Resolution(StrEnum):
    release = "released"
    drop = "dropped"


def resolve(conn: Connection, resolution: Resolution, jti: str, actor: str, allowed: AllowedIds = ALL_IDS) -> None:
    """Release or drop one event; raise Conflict if it is not errored."""
    row = conn.one(SQL.event, jti=jti)
    if row is None or row["client_id"] not in allowed:
        raise NotFound(f"there is no event {jti}")
    if not _apply(conn, resolution, row["client"], jti):
        raise Conflict(f"the event is {row['status']}: only errored events are released or dropped")
    event_audit.record(conn, actor, f"event.{resolution}", row["client_id"], {"jti": jti})


def resolve_some(conn: Connection, resolution: Resolution, jtis: list[str], actor: str) -> int:
    """Release or drop all of these events, or none of them; return their number."""
    for jti in dict.fromkeys(jtis):
        resolve(conn, resolution, jti, actor)
    return len(dict.fromkeys(jtis))


def resolve_all(conn: Connection, resolution: Resolution, client_id: str, actor: str) -> int:
    """Release or drop all errored events of the client; return their number."""
    count = _apply(conn, resolution, listing.client_row_id(conn, client_id), None)
    if count:
        event_audit.record(conn, actor, f"events.{resolution}", client_id, {"count": count})
    return count


def _apply(conn: Connection, resolution: Resolution, client: int, jti: str | None) -> int:
    query = SQL.release if resolution is Resolution.release else SQL.drop
    count = conn.run(query, client=client, jti=jti, now_ms=conn.now_ms)
    if count and resolution is Resolution.release:
        conn.add_commit_event(InboxChanged(client))
        conn.add_commit_event(PushDue())
    return count
