"""The errors of the database. Engines translate driver exceptions into these; no other code sees a driver exception.

DatabaseError
├── DatabaseUnavailable    unreachable, locked or full; a retry may help
│   ├── LockWaitEnded      the transaction waited too long for a lock; the writer runs it again, up to a limit
│   ├── CommitUncertain    the connection was lost during a commit: the transaction may or may not be committed
│   └── ConnectionRejected the server rejects the connection, and a retry will not help (password, certificate, …)
├── TransactionConflict    a conflict with another transaction: run it again and it succeeds
├── LockHeld               another transaction holds a lock, and this one must not wait: it shares its transaction
├── UniqueViolation        a unique index refused the row; `.constraint` names it
└── AlreadyRunning         another server uses this data folder
"""


class DatabaseError(Exception):
    """The database refused the statement."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now."""


class LockWaitEnded(DatabaseUnavailable):
    """Another transaction held a lock for too long."""


class CommitUncertain(DatabaseUnavailable):
    """It is unknown whether the transaction was committed."""


class ConnectionRejected(DatabaseUnavailable):
    """The server rejects the connection for good."""


class TransactionConflict(DatabaseError):
    """The transaction was rolled back because of another one (serialization failure, deadlock)."""


class LockHeld(DatabaseError):
    """Another transaction holds the lock, and this transaction must not wait for it."""


class UniqueViolation(DatabaseError):
    """A row with this key exists."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


class AlreadyRunning(DatabaseError):
    """Another server uses this data folder."""
