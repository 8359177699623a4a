"""The database's own failures. Driver exceptions become these at the engine's edge and nowhere else.

DatabaseError
├── DatabaseUnavailable   the engine cannot be reached, is locked or full; trying again may help
│   ├── CommitUncertain   the connection was lost while it committed: it may have, it may not
│   └── DatabaseRefused   the server takes no connection of ours, and waiting will not change its mind
├── Interfered            another transaction stood in the way: run again, it succeeds
├── Contended             another transaction holds a name, and this one is not alone: it runs on its own, and waits
├── UniqueViolation       a unique index refused the row; `.constraint` says which
└── AlreadyRunning        another server has this data folder
"""


class DatabaseError(Exception):
    """The database refused the statement."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now."""


class CommitUncertain(DatabaseUnavailable):
    """Whether the transaction was committed is not known."""


class DatabaseRefused(DatabaseUnavailable):
    """The server refuses the connection for good."""


class Interfered(DatabaseError):
    """Another transaction stood in the way of this one."""


class Contended(DatabaseError):
    """Another transaction holds what this one wants, which may not wait for it now."""


class UniqueViolation(DatabaseError):
    """A row with this key exists."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


class AlreadyRunning(DatabaseError):
    """Another server has this data folder."""
