"""The database's own failures. Driver exceptions become these at the engine's edge and nowhere else.

DatabaseError
├── DatabaseUnavailable   the engine cannot be reached, is locked or full; trying again may help
├── UniqueViolation       a unique index refused the row; `.constraint` says which
└── AlreadyRunning        another server has this data folder
"""


class DatabaseError(Exception):
    """The database refused the statement."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now."""


class UniqueViolation(DatabaseError):
    """A row with this key exists."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


class AlreadyRunning(DatabaseError):
    """Another server has this data folder."""
