"""The serials that authorities have issued, and which of them are revoked.

A renewal leaves the certificate before it valid until its end. So revoking a certificate revokes every serial of it
that has not ended. A serial stays here for a while after its end, so that one more revocation list names it (RFC 5280).
"""

from typing import Literal

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# The reasons of RFC 5280 that make sense for the certificate of a device.
Reason = Literal[
    "unspecified",
    "key_compromise",
    "affiliation_changed",
    "superseded",
    "cessation_of_operation",
    "privilege_withdrawn",
]
REASONS: tuple[Reason, ...] = (
    "unspecified",
    "key_compromise",
    "affiliation_changed",
    "superseded",
    "cessation_of_operation",
    "privilege_withdrawn",
)
KEPT_MS = 30 * 86_400_000
SWEEP_ROWS = 1000


def add(conn: Connection, ca_id: int, serial: str, cert_id: int, not_after: int) -> None:
    conn.run(SQL.add, ca_id=ca_id, serial=serial, cert_id=cert_id, not_after=not_after)


def revoke(conn: Connection, cert_id: int, reason: Reason) -> int:
    """Revoke every serial of the certificate that has not ended; return how many there were."""
    for row in conn.all(SQL.authorities_of, cert_id=cert_id, now_ms=conn.now_ms):
        conn.run(SQL.count_revocation, ca_id=row["ca_id"])
    return conn.run(SQL.revoke, cert_id=cert_id, reason=reason, now_ms=conn.now_ms)


def delete_ended(conn: Connection) -> int:
    """Delete serials that ended long ago, as many as fit one transaction; return how many."""
    return conn.run(SQL.delete_ended, before_ms=conn.now_ms - KEPT_MS, limit=SWEEP_ROWS)
