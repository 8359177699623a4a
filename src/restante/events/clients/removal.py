"""Removal of clients: all access ends, and nothing is delivered to them any more.

The row stays, because events and the audit log refer to it, and its client_id is never given to another client. The
subscription, the stream and the receivers are deleted. Undelivered events are dropped; they are evicted like others.

Invariant: one transaction does all of it, so no node delivers to a client that was removed.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.clients import clients
from restante.events.clients.clients import EventClient
from restante.events.publishing import event_audit

SQL = queries_beside(__file__)


def remove(conn: Connection, client_id: str, actor: str) -> EventClient:
    """Remove the client for good. Removing it again changes nothing; raise NotFound if it never existed."""
    if clients.get(conn, client_id).removed_at is not None:
        return clients.get(conn, client_id)
    client = clients.get_for_update(conn, client_id)
    conn.run(SQL.remove, id=client.id, now_ms=conn.now_ms)
    ended = clients.end_access(conn, client.id)
    conn.run(SQL.delete_receivers, client=client.id)
    conn.run(SQL.delete_subscription, client=client.id)
    conn.run(SQL.delete_subjects, client=client.id)
    conn.run(SQL.delete_stream, client=client.id)
    dropped = conn.run(SQL.drop_events, client=client.id, now_ms=conn.now_ms)
    detail = {"name": client.name, "tokens_ended": ended, "events_dropped": dropped}
    event_audit.record(conn, actor, "client.removed", client_id, detail)
    return clients.get(conn, client_id)
