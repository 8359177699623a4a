"""Translates errors of the driver, and decides which connection errors are permanent: a wrong password, for example.

When a server rejects a connection, libpq passes on the message but not the error code, so the decision is made by the
text.

Invariant: an error counts as temporary unless it is certainly permanent. A server that starts, stops, recovers or has
no free connection also rejects connections; an operator can always stop a process that waits for it.
"""

import re

import psycopg

from restante.database.errors import (
    DatabaseError,
    DatabaseUnavailable,
    LockWaitEnded,
    TransactionConflict,
    UniqueViolation,
)

_PERMANENT = re.compile(
    r"authentication failed for user"
    r"|no password supplied"
    r"|no pg_hba\.conf entry"
    r'|(?:database|role) ".*" does not exist'
    r"|is not permitted to log in"
    r"|permission denied for database"
    r"|unrecognized configuration parameter"
    r"|certificate verify failed"
    r"|server certificate for .* does not match host name"
    r"|root certificate file .* does not exist"
    r"|could not read root certificate file"
    r"|does not support SSL"
)
# The message of each host, if several were tried.
_PER_HOST = re.compile(r"^- host: .*", re.MULTILINE)


def is_permanent(message: str) -> bool:
    """Decide by the text of the driver's error. If several hosts were tried, all errors must be permanent."""
    return all(_PERMANENT.search(each) for each in _PER_HOST.findall(message) or [message])


def translate_error(error: psycopg.Error, *, writable: bool) -> DatabaseError:
    """Translate a driver error into one of ours.

    The server's details are left out: they quote rows.
    """
    message = error.diag.message_primary or str(error)
    state = error.sqlstate or ""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return UniqueViolation(error.diag.constraint_name or message)
    if state.startswith("40"):
        return TransactionConflict(message)
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return LockWaitEnded(message)
    # 25006: a standby server, which accepts no writes.
    if isinstance(error, psycopg.OperationalError) or (writable and state == "25006"):
        return DatabaseUnavailable(message)
    return DatabaseError(message)
