"""How many events are in the inboxes, by state, for the metrics. No label names a client: their number has no bound."""

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


def inbox_counts(conn: Connection) -> dict[str, int]:
    """How many events wait to be signed, wait to be delivered, were delivered, and are in error; each counts once."""
    counts, sent = conn.one(SQL.counts), conn.one(SQL.delivered)
    if counts is None or sent is None:
        return {}
    unsigned, delivered = int(counts["unsigned"]), int(sent["delivered"])
    waiting = int(counts["open"]) - unsigned - delivered
    return {"unsigned": unsigned, "waiting": waiting, "delivered": delivered, "errored": int(counts["errored"])}
